"""What the judge of `tiny.judged_config` says; of nothing but the question."""

import hashlib
import json
import re

_RESPONSE = re.compile(r"<response-.*</response-", re.DOTALL)
_CRITERION = re.compile(r"<criterion(-?\d*)>\n(.*?)\n</criterion", re.DOTALL)


def verdict(body):
  question = body["messages"][-1]["content"]
  response = _RESPONSE.search(question)[0]
  verdicts = {}
  for number, criterion in _CRITERION.findall(question):
    digest = hashlib.sha256((response + criterion).encode()).digest()
    key = "present" if "rude" in criterion else "met"
    verdicts[number[1:]] = {"reason": "So it is.", key: digest[0] % 2 == 0}
  return json.dumps(verdicts.get("", verdicts))
