# %% [markdown]
# # 09 Feed-forward network, residual connections and layer norm

# %% [markdown]
# ## 1. Layers that only mix

# %% [markdown]
# ### Given its weights, attention is linear (C19)

# %% [markdown]
# ## 2. The feed-forward network

# %% [markdown]
# ## 3. Residual connections

# %% [markdown]
# ### Depth with and without (C20)

# %% [markdown]
# ### Asked for the identity (C34)

# %% [markdown]
# ## 4. Layer normalization

# %% [markdown]
# ## 5. Its gradient by hand

# %% [markdown]
# ### The gradient of the norm (C35)

# %% [markdown]
# ## 6. Batch norm and RMSNorm

# %% [markdown]
# ### Speed of training (C21)

# %% [markdown]
# ## 7. Before or after

# %% [markdown]
# ### Learning rate and warm-up (C22)

# %% [markdown]
# ## 8. The block

# %% [markdown]
# ## Summary
