# %% [markdown]
# # 05 Self-attention
#
# ## 1. Recurrence taken out
#
# ### Without recurrence, with self-attention (C33)
#
# ## 2. Queries, keys and values
#
# ## 3. One token at a time
#
# ## 4. In matrices
#
# ## 5. Dividing by the root of d
#
# ### Scores against the width (C11)
#
# ## 6. No notion of order
#
# ### Permuting the words (C10)
#
# ## 7. What waits for what
#
# ### Sequential operations against length (C12)
#
# ## 8. The table of barriers
#
# ## Summary
