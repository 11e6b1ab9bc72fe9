# %% [markdown]
# # 06 Multi-head attention
#
# One softmax looks at one place well, at two places badly. In this chapter a token looks at several places
# at once, through several heads.
#
# ## 1. One softmax, one place
#
# ## 2. Heads in a loop
#
# ## 3. Heads as an axis
#
# ### The mistake that mixes positions
#
# ## 4. Joining the heads
#
# ## 5. What heads cost
#
# ### FLOPs, memory and time (C13)
#
# ## 6. A task for two heads
#
# ### One head and two (C14)
#
# ## 7. What heads look at
#
# ## Summary
