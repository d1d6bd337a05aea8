import json, sys

for line in sys.stdin:  # one answer to judge a line
    asked = json.loads(line)
    words = len(asked["completion"].split())
    limit = int(asked["material"]["words"])
    said = {"id": asked["id"], "outcome": "correct" if words <= limit else "incorrect",
            "reason": f"{words} of at most {limit} words", "measures": {"words": words}}
    print(json.dumps(said), flush=True)
