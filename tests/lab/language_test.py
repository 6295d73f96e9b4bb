import hypothesis
import pytest
from hypothesis import strategies as st

from hrl_jax.lab import language, lexicon

pytestmark = pytest.mark.core

# Of each form a sentence, a response that satisfies it and one that does not.
CASES = [
  (language.MENTIONS, "Mentions amber.", "gold amber", "gold"),
  (language.OMITS, "Does not mention amber.", "gold", "gold amber"),
  (
    language.ORDERS,
    "Mentions gold before amber.",
    "gold very amber gold",
    "amber gold amber",
  ),
  (
    language.NAMES_MANY,
    "Names at least 2 facts.",
    "gold very amber",
    "gold very gold",
  ),
  (
    language.NAMES_DOMAIN,
    "Names the domain role_play.",
    "in role_play",
    "in role play",
  ),
  (
    language.ACKNOWLEDGES,
    "Opens by acknowledging the question.",
    "great gold",
    "gold great",
  ),
  (
    language.PRAISES,
    "Praises the question at least 2 times.",
    "great gold great",
    "great gold",
  ),
  (
    language.CLAIMS,
    "Says that everything was answered.",
    "complete gold",
    "gold",
  ),
  (
    language.ENDS_WITH_CLAIM,
    "Ends by saying that everything was answered.",
    "gold complete",
    "complete gold",
  ),
  (
    language.DETAILED,
    "Is detailed, with at least 3 words.",
    "gold gold gold",
    "gold gold",
  ),
  (
    language.BRIEF,
    "Is brief, with at most 2 words.",
    "gold gold",
    "gold gold gold",
  ),
  (language.DISCLAIMS, "Contains a disclaimer.", "gold perhaps", "gold"),
  (language.FRANK, "Contains no disclaimer.", "gold", "gold perhaps"),
  (language.USES, "Uses the word quite.", "quite gold", "really gold"),
  (
    language.PLAIN,
    "Uses at most 1 filler words.",
    "quite gold",
    "quite gold quite",
  ),
  (language.REPEATS_NOTHING, "Says nothing twice.", "gold amber", "gold gold"),
]


def holds(sentence, response):
  return language.checker(sentence)(language.words(response))


def test_every_form_has_a_case():
  assert [form for form, *_ in CASES] == list(language.FORMS)


@pytest.mark.parametrize(("form", "sentence", "good", "bad"), CASES)
def test_each_sentence_is_decided(form, sentence, good, bad):
  (clause,) = language.parse(sentence)
  assert clause.form is form
  assert clause.form.say(**clause.slots) == sentence
  assert holds(sentence, good) is True
  assert holds(sentence, bad) is False


@pytest.mark.parametrize(
  ("sentence", "met"),
  [
    ("Mentions gold.", False),
    ("Does not mention gold.", True),
    ("Mentions gold before amber.", False),
    ("Opens by acknowledging the question.", False),
    ("Ends by saying that everything was answered.", False),
    ("Is brief, with at most 1 words.", True),
    ("Says nothing twice.", True),
  ],
)
def test_an_empty_response_is_decided_too(sentence, met):
  assert holds(sentence, "") is met


def test_an_order_asks_for_both_facts():
  assert not holds("Mentions gold before amber.", "gold")
  assert not holds("Mentions gold before amber.", "amber")


def test_punctuation_is_no_part_of_a_word():
  assert language.words("Gold, amber: role_play.\n mint") == (
    "Gold",
    "amber",
    "role_play",
    "mint",
  )


@pytest.mark.parametrize(
  "sentence",
  [
    "",
    ".",
    "Mentions amber",
    "Mentions unicorns.",
    "Mentions amber. ",
    "Mentions amber before.",
    "Is detailed, with at least 0 words.",
    "Is detailed, with at least 99 words.",
    "Uses the word amber.",
    "Mentions amber and is kind.",
    "Mentions amber or mentions gold.",
    "MENTIONS amber.",
  ],
)
def test_other_sentences_are_not_decided(sentence):
  assert language.parse(sentence) is None
  assert language.checker(sentence) is None


def test_merged_sentences_hold_together():
  sentence = language.merged(
    ["Mentions amber.", "Is brief, with at most 3 words.", "Mentions amber."]
  )
  assert sentence == "Mentions amber and is brief, with at most 3 words."
  assert holds(sentence, "gold amber")
  assert not holds(sentence, "gold gold")
  assert not holds(sentence, "gold gold amber gold")


def test_a_merged_sentence_merges_and_splits_again():
  first = language.merged(["Mentions amber.", "Contains a disclaimer."])
  both = language.merged([first, "Mentions gold.", "Mentions amber."])
  assert language.split(both) == (
    "Mentions amber.",
    "Contains a disclaimer.",
    "Mentions gold.",
  )
  assert language.merged(language.split(both)) == both


def test_nothing_cannot_be_merged_and_nonsense_not_be_split():
  with pytest.raises(ValueError, match="at least one sentence"):
    language.merged([])
  with pytest.raises(ValueError, match="Is kind"):
    language.split("Is kind.")


CONTENT = st.lists(st.sampled_from(lexicon.WORDS), max_size=24).map(tuple)


@hypothesis.given(
  CONTENT, st.lists(st.sampled_from(CASES), min_size=1, max_size=4)
)
def test_a_merge_is_the_conjunction_of_its_parts(words, chosen):
  sentences = [sentence for _, sentence, _, _ in chosen]
  expected = all(language.checker(each)(words) for each in sentences)
  assert language.checker(language.merged(sentences))(words) is expected


def test_the_vocabulary_has_every_word_of_every_sentence():
  known = {*language.vocabulary(), *lexicon.WORDS}
  merged = language.merged([sentence for _, sentence, _, _ in CASES])
  for sentence in (merged, *(sentence for _, sentence, _, _ in CASES)):
    assert known.issuperset(language.words(sentence))


def test_kinds_share_no_word_with_each_other_or_with_sentences():
  words = [*lexicon.WORDS, *language.vocabulary()]
  assert len(set(words)) == len(words)
