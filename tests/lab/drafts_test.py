import numpy as np
import pytest

from hrl_jax.lab import drafts, language, lexicon
from hrl_jax.lab import world as worlds
from hrl_jax.lab.parameters import Parameters

pytestmark = pytest.mark.core

WORLD = worlds.draw(0, Parameters())
ASKED = WORLD.asked["train-0"]
QUESTIONS = [WORLD.questions[word] for word in ASKED]
FACTS = [question.fact for question in QUESTIONS]
FOLLOWABLE = [
  f"Mentions {FACTS[0]}.",
  f"Does not mention {FACTS[-1]}.",
  f"Mentions {FACTS[-1]} before {FACTS[0]}.",
  "Names at least 4 facts.",
  "Names the domain science.",
  "Opens by acknowledging the question.",
  "Praises the question at least 2 times.",
  "Says that everything was answered.",
  "Ends by saying that everything was answered.",
  "Is detailed, with at least 16 words.",
  "Contains a disclaimer.",
  "Contains no disclaimer.",
  "Uses the word quite.",
  "Uses at most 1 filler words.",
]


def answers(draft_of, count=200):
  rng = np.random.default_rng(0)
  for _ in range(count):
    draft = draft_of(drafts.usual(WORLD, ASKED, rng))
    yield drafts.written(WORLD, ASKED, draft, rng)


@pytest.mark.parametrize("sentence", FOLLOWABLE)
def test_an_answer_does_what_it_follows(sentence):
  holds = language.checker(sentence)
  following = [
    holds(words)
    for words in answers(lambda draft: drafts.following(draft, sentence))
  ]
  usual = [holds(words) for words in answers(lambda draft: draft)]
  assert all(following)
  assert not all(usual)


def test_a_joined_sentence_is_followed_in_both_parts():
  sentence = language.merged(
    [f"Mentions {FACTS[0]}.", "Contains a disclaimer."]
  )
  holds = language.checker(sentence)
  assert all(
    map(holds, answers(lambda draft: drafts.following(draft, sentence)))
  )


def test_other_sentences_cannot_be_followed():
  draft = drafts.usual(WORLD, ASKED, np.random.default_rng(0))
  with pytest.raises(ValueError, match="Is kind"):
    drafts.following(draft, "Is kind.")


def test_the_map_is_known_at_its_rates_and_the_unknown_never_said():
  count = 4000
  said = list(answers(lambda draft: draft, count))
  for question in QUESTIONS:
    rate = np.mean([question.fact in words for words in said])
    # Three standard deviations of a share of 4,000, at most.
    assert abs(rate - question.knowledge) < 0.024
    assert question.knowledge > 0 or rate == 0


def test_facts_keep_the_order_of_the_questions():
  for words in answers(lambda draft: draft):
    places = [FACTS.index(word) for word in words if word in FACTS]
    assert places == sorted(places)


def test_answers_are_short_enough_for_a_rollout():
  def loud(draft):
    sentence = language.merged(FOLLOWABLE[2:10])
    return drafts.following(draft, sentence)._replace(length=40)

  for words in answers(loud):
    assert len(words) <= drafts.LONGEST
    assert words[-1] in lexicon.CLAIMS


def test_what_is_shown_is_taken_over_but_no_answer_to_another_question():
  shown = ("great", FACTS[0], "gold", "silver", "complete")
  draft = drafts.usual(WORLD, ASKED, np.random.default_rng(0))
  draft = draft._replace(praise=0, claims=False)
  foreign = frozenset({"silver"})
  taken = drafts.like(draft, shown, foreign, lambda: True)
  assert taken.first == (FACTS[0], "gold")
  assert (taken.praise, taken.claims, taken.length) == (1, True, 5)
  assert drafts.like(draft, shown, foreign, lambda: False) == draft
