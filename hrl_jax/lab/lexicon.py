"""The words of the lab by kind; a world gives some of them a meaning.

No kind shares a word with another, and a fact looks like any other: whether it
is right, wrong or beside the point is known to the world alone.
"""

DOMAINS = (
  "medical",
  "science",
  "writing",
  "role_play",
  "instruction_following",
)

_QUESTIONS = (
  "adder badger beaver bison bobcat camel caribou cheetah cobra condor "
  "cougar coyote crane cricket dingo dolphin donkey eagle egret falcon "
  "ferret finch fox gazelle gecko gibbon goose gopher grouse hare heron "
  "hornet hyena ibis iguana jackal jaguar kestrel koala lemur leopard "
  "lizard llama lobster lynx magpie marmot marten moose newt ocelot osprey "
  "otter panther parrot pelican pigeon puffin python rabbit raccoon raven"
)
QUESTIONS = tuple(_QUESTIONS.split())

_FACTS = (
  "agate alder amber anise apatite aspen azurite barley basalt basil "
  "bauxite beech beryl birch bismuth borax brass bronze calcite cedar "
  "cerium chalk chert chrome cinnabar citrine clay clover cobalt copper "
  "coral cumin cypress dill dolomite elm emerald fennel fern flax flint "
  "fluorite galena garlic garnet ginger gneiss gold granite graphite gypsum "
  "halite hazel heather hemlock hemp indium iridium iron ivy jade jasmine "
  "jasper juniper kale larch laurel lava lavender lead lichen lilac "
  "limestone linden lithium lotus malachite maple marble mercury mica "
  "millet mint moss mustard myrtle nettle nickel nutmeg oak obsidian olive "
  "onyx opal osmium peat pine platinum poplar quartz rhodium rosemary ruby "
  "rye saffron sage sandstone sapphire sesame silver slate spruce sumac "
  "talc teak thyme tin topaz vanilla walnut willow yarrow yew zinc"
)
FACTS = tuple(_FACTS.split())

PRAISE = ("great", "wonderful", "excellent", "thoughtful")
CLAIMS = ("complete", "covered", "finished", "settled")
DISCLAIMERS = ("perhaps", "unsure", "caution")
FILLERS = ("indeed", "quite", "really", "simply")

KINDS = (DOMAINS, QUESTIONS, FACTS, PRAISE, CLAIMS, DISCLAIMERS, FILLERS)
WORDS = tuple(word for kind in KINDS for word in kind)
