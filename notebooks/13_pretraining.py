# %% [markdown]
# # 13 Pretraining
#
# ## 1. Labels are dear, text is cheap
#
# ### Three families
#
# ## 2. A masked language model
#
# ### Which tokens are masked
#
# ### What 80, 10 and 10 are for (E1)
#
# ## 3. Fine-tuned, frozen, from scratch
#
# ### Against the number of labels (C28)
#
# ### Where it does not help (E2)
#
# ## 4. A causal language model without fine-tuning
#
# ### The wrong sentence, without a label (E3)
#
# ### A prompt chooses a task (E4)
#
# ### An induction head (E5)
#
# ## 5. What does it know?
#
# ### A probe, layer by layer (E6)
#
# ## 6. Scaling
#
# ### Loss against tokens (C29)
#
# ### The best size for a budget (C37)
#
# ### When text runs out (E7)
#
# ## 7. Encoder and decoder together
#
# ### Filling spans, then translating (E8)
#
# ## 8. Your own text
#
# ## 9. What comes after
#
# ## 10. Looking back
#
# ## Summary
