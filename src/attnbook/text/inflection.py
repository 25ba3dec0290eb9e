"""The forms of the English words of the built-in grammar: verbs, plurals, comparison, pronouns, a/an."""

_PRONOUNS = {"i": "me", "he": "him", "she": "her", "we": "us", "they": "them", "you": "you"}
_IRREGULAR = {
    # verb: (past, past participle)
    "break": ("broke", "broken"),
    "bring": ("brought", "brought"),
    "buy": ("bought", "bought"),
    "come": ("came", "come"),
    "do": ("did", "done"),
    "draw": ("drew", "drawn"),
    "drink": ("drank", "drunk"),
    "eat": ("ate", "eaten"),
    "find": ("found", "found"),
    "fly": ("flew", "flown"),
    "give": ("gave", "given"),
    "go": ("went", "gone"),
    "have": ("had", "had"),
    "hide": ("hid", "hidden"),
    "know": ("knew", "known"),
    "leave": ("left", "left"),
    "lend": ("lent", "lent"),
    "lose": ("lost", "lost"),
    "put": ("put", "put"),
    "read": ("read", "read"),
    "run": ("ran", "run"),
    "say": ("said", "said"),
    "see": ("saw", "seen"),
    "sell": ("sold", "sold"),
    "sing": ("sang", "sung"),
    "sleep": ("slept", "slept"),
    "swim": ("swam", "swum"),
    "take": ("took", "taken"),
    "think": ("thought", "thought"),
    "throw": ("threw", "thrown"),
    "write": ("wrote", "written"),
}
_PLURALS = {
    "child": "children",
    "mouse": "mice",
    "wolf": "wolves",
    "sheep": "sheep",
    "fish": "fish",
    "photo": "photos",
}
_COMPARED = {"good": ("better", "best")}
_BE = {"pres": {"i": "am", "sg": "is", "pl": "are"}, "past": {"i": "was", "sg": "was", "pl": "were"}}
_DOUBLED = frozenset(
    {"big", "chat", "plan", "put", "run", "swim"}
)  # the last consonant is doubled before a vowel
_VOWELS = "aeiou"


def inflect(word: str, form: str, agreement: str = "sg") -> str:
    """The `form` of a verb, noun, adjective or pronoun; a word without that form stays as it is.

    `form`: "pres", "past", "ing", "pp" of a verb (`agreement` "i", "sg" or "pl" is its subject's), "pl" of a
    noun, "er", "est" of an adjective, "obj" of a pronoun.
    """
    if form == "obj":
        return _PRONOUNS.get(word, word)
    if form == "pl":
        return _PLURALS.get(word) or _with_s(word)
    if word == "be" and form in _BE:
        return _BE[form][agreement]
    if form == "pres":
        return ("has" if word == "have" else _with_s(word)) if agreement == "sg" else word
    if form in ("past", "pp"):
        return _IRREGULAR[word][form == "pp"] if word in _IRREGULAR else _with_vowel(word, "ed")
    if form == "ing":
        return _with_vowel(word, "ing")
    if form in ("er", "est"):
        return _COMPARED[word][form == "est"] if word in _COMPARED else _with_vowel(word, form)
    return word


def article(following: str) -> str:
    """ "an" before a vowel, else "a"."""
    return "an" if following[:1] in _VOWELS else "a"


def _with_s(word: str) -> str:
    if word.endswith("y") and word[-2] not in _VOWELS:
        return word[:-1] + "ies"
    return word + ("es" if word.endswith(("s", "x", "ch", "sh", "o")) else "s")


def _with_vowel(word: str, ending: str) -> str:
    if word in _DOUBLED:
        return word + word[-1] + ending
    if word.endswith("e") and not word.endswith("ee") and word != "be":
        return word[:-1] + ending
    if word.endswith("y") and word[-2] not in _VOWELS and ending != "ing":
        return word[:-1] + "i" + ending
    return word + ending
