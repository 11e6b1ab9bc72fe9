# %% [markdown]
# # 08 Positions
#
# Self-attention looks at a set of words, not at a sequence: permute them, and the outputs are permuted
# with them (chapter 05, C10). In this chapter we tell it where the words stand.

# %%
import minitorch as mt

words = "be water my friend".split()
print(len(words), "tokens, minitorch", mt.__name__)

# %% [markdown]
# ## 1. Without positions
#
# ## 2. The index appended
#
# ## 3. One-hot positions
#
# ## 4. Sinusoids
#
# ### A shift is a rotation (C18)
#
# ## 5. Learned positions
#
# ## 6. Added or concatenated
#
# ## 7. Relative positions
#
# ## 8. Rotary positions
#
# ## 9. A bias for distance
#
# ## 10. Positions from syntax
#
# ## 11. Beyond the trained length
#
# ### Longer than trained (C17)
#
# ## Summary
