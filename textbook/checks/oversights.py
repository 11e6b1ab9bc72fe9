"""The first of several programs that an answer overlooks, or names without reason, and why."""


def told(compared, kinds, broken, sound, wanted):
    """What ``by_kinds`` compares, the list as a sentence on the first kind that it gets wrong.

    ``broken`` and ``sound`` say of each kind how it shows that it is broken, or why it is not.
    """
    names = compared[f"the list of {wanted}"]
    if names is None:
        return compared
    found = [] if names == "none" else names.split("; ")
    sentence = "complete, and no other is in it"
    in_order = {kind for kind in kinds if kind in sound}
    if kinds and len(in_order ^ set(found)) * 4 <= len(kinds):
        sentence, kinds = "turned round: it names those that are in order", ()
    for kind in kinds:
        if kind in broken and kind not in found:
            sentence = f"it lacks the one that {kind}. {broken[kind]}"
            break
        if kind in sound and kind in found:
            sentence = f"it names the one that {kind}, which it should not. {sound[kind]}"
            break
        if found.count(kind) > kinds.count(kind):
            sentence = f"it names the one that {kind} more than once"
            break
    form = {label: value for label, value in compared.items() if value is not names}
    return {**form, f"the list of {wanted}": sentence, "all of the list": names}
