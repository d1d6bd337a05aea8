"""The tasks that both programs are given, and the rows made for them.

Those of REAL are files of the package as they are; those of OWN ask for what these do not. Rows are such that the demo's model,
which knows little sums and patterns of letters, is right sometimes: figures of 0 on both sides would show nothing.
"""

import random

ROWS = 24

RANDOM = random.Random(11)
WORDS = "one two three four apples pears sums more less left".split()


def words(count):
    return " ".join(RANDOM.choice(WORDS) for _ in range(count))


def letters(index):
    return {
        "question": f"{index} + {index % 5} = ?",
        "choices": {"text": [str(index + index % 5 + off) for off in (1, 0, 2, 11)], "label": list("ABCD")},
        "answerKey": "BBBB"[index % 4],
    }


def knowledge(index):
    return {
        "question": f" {words(3)}? ",
        "choices": [words(1) for _ in range(4)],
        "answer": index % 4,
        "subject": "anatomy",
    }


def pattern(index):
    """A pattern of letters and what comes next."""
    period = ["bcd", "lmhk", "tu", "aeiou"][index % 4]
    length = 2 * len(period) + index % 3
    return " ".join(period[place % len(period)] for place in range(length)), period[length % len(period)]


# Tasks of the package over rows made here: the file, its splits' rows, and the examples asked for.
REAL = {
    "arc_easy": ("arc/arc_easy.yaml", letters, 2),
    "boolq": (
        "super_glue/boolq/default.yaml",
        lambda index: {"passage": words(5), "question": words(3), "label": index % 2},
        1,
    ),
    "sciq": (
        "sciq/sciq.yaml",
        lambda index: {
            "support": "  " + words(4),
            "question": words(3) + "?",
            "distractor1": words(1),
            "distractor2": words(2),
            "distractor3": "x",
            "correct_answer": words(1),
        },
        0,
    ),
    "blimp_adjunct_island": (
        "blimp/adjunct_island.yaml",
        lambda index: {"sentence_good": words(4), "sentence_bad": words(4)},
        0,
    ),
    "mmlu_anatomy": ("mmlu/default/mmlu_anatomy.yaml", knowledge, 1),
    "global_mmlu_full_de_anatomy": (
        "global_mmlu/full/de/global_mmlu_full_de_anatomy.yaml",
        lambda index: {
            "subject": ["anatomy", "law"][index % 4 == 3],
            "question": words(3),
            **{f"option_{letter}": words(1) for letter in "abcd"},
            "answer": "ABCD"[index % 4],
        },
        0,
    ),
    "cola": ("glue/cola/default.yaml", lambda index: {"sentence": words(4), "label": index % 2}, 1),
    "gsm8k": (
        "gsm8k/gsm8k.yaml",
        lambda index: {
            "question": f"{8 + 2 * index}-{4 + index}={4 + index}",
            "answer": f"so\n#### {4 + index}",
        },
        2,
    ),
    "nq_open": (
        "nq_open/nq_open.yaml",
        lambda index: {"question": f"{index} + 4", "answer": [str(index + 4), "UTITIT"[index % 6], str(index % 3)]},
        1,
    ),
    "triviaqa": (
        "triviaqa/default.yaml",
        lambda index: {"question": f"{index} - 1", "answer": {"aliases": [str(index - 1), "N", str(index % 3)], "value": "x"}},
        2,
    ),
    "lambada_openai": (
        "lambada/lambada_openai.yaml",
        lambda index: {"text": "Pattern: {}\nNext: {}".format(*pattern(index))},
        0,
    ),
    "pile_arxiv": (
        "pile/pile_arxiv.yaml",
        lambda index: {
            "text": ["Q: {question}\nA: {answer}", "Q: gcd({larger},{smaller})\nA:\n{steps}", "Pattern: {pattern}\nNext: {next}"][
                index % 3
            ].format(**sums(index))
        },
        0,
    ),
}

# Tasks of our own, for what those do not ask for.
OWN = {
    "own_regex": """
        output_type: generate_until
        doc_to_text: "Q: {{question}}\\nA:"
        doc_to_target: "{{answer}}"
        generation_kwargs: {until: ["\\n"], max_gen_toks: 12, do_sample: false}
        filter_list:
          - {name: strict, filter: [{function: regex, regex_pattern: "^\\\\s*(-?\\\\d+)$"}, {function: take_first}]}
          - {name: loose, filter: [{function: regex, regex_pattern: "(-?\\\\d+)", group_select: -1}, {function: take_first}]}
        metric_list:
          - {metric: exact_match, aggregation: mean, higher_is_better: true}
    """,
    "own_texts": """
        output_type: generate_until
        doc_to_text: "Q: gcd({{larger}},{{smaller}})\\nA:"
        doc_to_target: "{{steps}}"
        generation_kwargs: {until: ["Answer"], max_gen_toks: 48}
        metric_list:
          - {metric: bleu, aggregation: bleu, higher_is_better: true}
          - {metric: chrf, aggregation: chrf, higher_is_better: true}
    """,
    "own_choices": """
        output_type: multiple_choice
        description: "Sums.\\n\\n"
        doc_to_text: "Q: {{question}}\\nA:"
        doc_to_choice: "{{[answer, wrong, wrong ~ '0'] if right == 0 else [wrong, answer, wrong ~ '0']}}"
        doc_to_target: right
        num_fewshot: 1
        metric_list:
          - {metric: acc, aggregation: mean, higher_is_better: true}
          - {metric: acc_norm, aggregation: mean, higher_is_better: true}
          - {metric: acc_bytes, aggregation: mean, higher_is_better: true}
          - {metric: exact_match, aggregation: mean, higher_is_better: true}
          - {metric: brier_score, aggregation: brier_score, higher_is_better: false}
          - {metric: f1, aggregation: f1, higher_is_better: true}
    """,
    "own_labels": """
        output_type: multiple_choice
        doc_to_text: "Pattern: {{pattern}}\\nNext:"
        doc_to_choice: ["b", "l"]
        doc_to_target: "{{0 if next in 'bcdtu' else 1}}"
        metric_list:
          - {metric: acc, aggregation: mean, higher_is_better: true}
          - {metric: mcc, aggregation: matthews_corrcoef, higher_is_better: true}
          - {metric: f1, aggregation: f1, higher_is_better: true}
          - {metric: exact_match, aggregation: mean, higher_is_better: true}
    """,
    "own_target": """
        output_type: loglikelihood
        doc_to_text: "Q: {{question}}\\nA:"
        doc_to_target: " {{answer}}"
        metric_list:
          - {metric: acc, aggregation: mean, higher_is_better: true}
          - {metric: perplexity, aggregation: perplexity, higher_is_better: false}
    """,
    "own_windows": """
        output_type: loglikelihood_rolling
        doc_to_text: ""
        doc_to_target: "{{exercises}}"
        metric_list:
          - {metric: word_perplexity, aggregation: weighted_perplexity, higher_is_better: false}
          - {metric: byte_perplexity, aggregation: weighted_perplexity, higher_is_better: false}
          - {metric: bits_per_byte, aggregation: bits_per_byte, higher_is_better: false}
    """,
    "own_repeats": """
        output_type: generate_until
        doc_to_text: "Q: {{question}}\\nA:"
        doc_to_target: "{{answer}}"
        generation_kwargs: {until: ["\\n"], max_gen_toks: 12}
        repeats: 3
        filter_list:
          - {name: first, filter: [{function: remove_whitespace}, {function: take_first}]}
          - {name: maj, filter: [{function: remove_whitespace}, {function: majority_vote}, {function: take_first}]}
        metric_list:
          - {metric: exact_match, aggregation: mean, higher_is_better: true, ignore_punctuation: true}
    """,
    "own_votes": """
        output_type: generate_until
        doc_to_text: "Q: {{question}}\\nA:"
        doc_to_target: "{{answer}}"
        generation_kwargs: {until: ["\\n"], max_gen_toks: 12, temperature: 2.5}
        repeats: 7
        filter_list:
          - {name: first, filter: [{function: regex, regex_pattern: "(\\\\d+)"}, {function: take_first}]}
          - {name: maj, filter: [{function: regex, regex_pattern: "(\\\\d+)"}, {function: majority_vote}, {function: take_first}]}
          - {name: maj@4, filter: [{function: take_first_k, k: 4}, {function: regex, regex_pattern: "(\\\\d+)"}, {function: majority_vote}, {function: take_first}]}
        metric_list:
          - {metric: exact_match, aggregation: mean, higher_is_better: true}
    """,
}

# Groups of them, each named and asked for in place of its tasks.
GROUPS = {
    "own_group": """
        task: [own_choices, own_labels]
        aggregate_metric_list:
          - {metric: acc, weight_by_size: true}
          - {metric: exact_match, weight_by_size: false}
    """,
}

# Rows of tasks that have another number of them: a group's means are then not one another's.
FEWER = {"own_labels": 15}

# Tasks that draw at random, where the harness is given the answers that Tidemill's engine gave: it asks for each of a row's
# answers with one and the same seed.
STORED = ["own_votes"]

# Of how many of a row's first answers a filter counts the votes.
HEARD = {"maj": 7, "maj@4": 4}


def sums(index):
    # The model knows no numbers above a hundred.
    left, right = 11 + 3 * index + 100 * (index % 4 == 0), index % 9 + 1
    larger, smaller = 30 + 2 * index, 11 + index
    shown, following = pattern(index)
    return {
        "question": f"{left}+{right}",
        "answer": str(left + right),
        "wrong": str(left + right + 10 * (index % 3)),
        "right": index % 2,
        "larger": larger,
        "smaller": smaller,
        "steps": f"{larger}-{smaller}={larger - smaller}\n{smaller}-{larger - smaller}={2 * smaller - larger}\n",
        "pattern": shown,
        "next": following,
        # From a few tokens to several times the engine's context.
        "exercises": "".join(f"Q: {left + place}+{right}\nA: {left + place + right}\n" for place in range(1 + 5 * index)),
    }
