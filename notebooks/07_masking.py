# %% [markdown]
# # 07 Masking
#
# Self-attention lets every token look at every other one, also at those that come after it. A model that is
# to predict the next token must not.
#
# ## 1. A model that cheats
#
# ## 2. The causal mask
#
# ## 3. Before the softmax, not after
#
# ## 4. Padding
#
# ## 5. Rows with nothing to look at
#
# ## 6. Does anything leak?
#
# ### Gradients from the future (C15)
#
# ## 7. The growing key set
#
# ### One masked pass (C16)
#
# ## 8. A masked language model
#
# ## Summary
