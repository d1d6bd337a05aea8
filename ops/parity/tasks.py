"""The tasks that both programs are given, and the rows made for them.

Those of REAL are files of the package as they are; those of OWN ask for what these do not.
"""

import random

ROWS = 16

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
        lambda index: {"question": f"{index} + 3", "answer": f"{words(2)}\n#### {index + 3}"},
        2,
    ),
    "nq_open": (
        "nq_open/nq_open.yaml",
        lambda index: {"question": f"{index} + 4", "answer": [str(index + 4), words(1)]},
        1,
    ),
    "triviaqa": (
        "triviaqa/default.yaml",
        lambda index: {"question": f"{index} - 1", "answer": {"aliases": [str(index - 1), "none"], "value": "x"}},
        2,
    ),
    "lambada_openai": ("lambada/lambada_openai.yaml", lambda index: {"text": words(6)}, 0),
    "pile_arxiv": ("pile/pile_arxiv.yaml", lambda index: {"text": words(12 + index)}, 0),
}

# Tasks of our own, for what those do not ask for.
OWN = {
    "own_regex": """
        output_type: generate_until
        doc_to_text: "Q: {{question}}\\nA:"
        doc_to_target: "{{answer}}"
        generation_kwargs: {until: ["\\n"], max_gen_toks: 12, do_sample: false}
        num_fewshot: 2
        fewshot_split: train
        filter_list:
          - {name: strict, filter: [{function: regex, regex_pattern: "^\\\\s*(-?\\\\d+)$"}, {function: take_first}]}
          - {name: loose, filter: [{function: regex, regex_pattern: "(-?\\\\d+)", group_select: -1}, {function: take_first}]}
        metric_list:
          - {metric: exact_match, aggregation: mean, higher_is_better: true}
    """,
    "own_texts": """
        output_type: generate_until
        doc_to_text: "Q: {{question}}\\nA:"
        doc_to_target: "{{answer}} and more"
        generation_kwargs: {until: [], max_gen_toks: 16}
        metric_list:
          - {metric: bleu, aggregation: bleu, higher_is_better: true}
          - {metric: chrf, aggregation: chrf, higher_is_better: true}
    """,
    "own_choices": """
        output_type: multiple_choice
        description: "Sums.\\n\\n"
        doc_to_text: "Q: {{question}}\\nA:"
        doc_to_choice: "{{[answer, wrong, wrong ~ '0']}}"
        doc_to_target: 0
        num_fewshot: 3
        metric_list:
          - {metric: acc, aggregation: mean, higher_is_better: true}
          - {metric: acc_norm, aggregation: mean, higher_is_better: true}
          - {metric: acc_bytes, aggregation: mean, higher_is_better: true}
          - {metric: exact_match, aggregation: mean, higher_is_better: true}
          - {metric: brier_score, aggregation: brier_score, higher_is_better: false}
          - {metric: f1, aggregation: f1, higher_is_better: true}
    """,
    "own_target": """
        output_type: loglikelihood
        doc_to_text: "Q: {{question}}\\nA:"
        doc_to_target: " {{answer}}"
        num_fewshot: 1
        metric_list:
          - {metric: acc, aggregation: mean, higher_is_better: true}
          - {metric: perplexity, aggregation: perplexity, higher_is_better: false}
    """,
    "own_repeats": """
        output_type: generate_until
        doc_to_text: "Q: {{question}}\\nA:"
        doc_to_target: "{{answer}}"
        generation_kwargs: {until: ["\\n"], max_gen_toks: 12}
        repeats: 3
        filter_list:
          - {name: first, filter: [{function: take_first}]}
          - {name: maj, filter: [{function: majority_vote}, {function: take_first}]}
        metric_list:
          - {metric: exact_match, aggregation: mean, higher_is_better: true, ignore_punctuation: true}
    """,
    "own_votes": """
        output_type: generate_until
        doc_to_text: "Q: {{question}}\\nA:"
        doc_to_target: "{{answer[1]}}"
        generation_kwargs: {until: ["\\n"], max_gen_toks: 12, temperature: 1.0}
        num_fewshot: 2
        fewshot_split: train
        repeats: 7
        filter_list:
          - {name: first, filter: [{function: regex, regex_pattern: "(\\\\d)"}, {function: take_first}]}
          - {name: maj, filter: [{function: regex, regex_pattern: "(\\\\d)"}, {function: majority_vote}, {function: take_first}]}
          - {name: maj@4, filter: [{function: take_first_k, k: 4}, {function: regex, regex_pattern: "(\\\\d)"}, {function: majority_vote}, {function: take_first}]}
        metric_list:
          - {metric: exact_match, aggregation: mean, higher_is_better: true}
    """,
}

# Tasks that draw at random, where the harness is given the answers that Tidemill's engine gave: it asks for each of a row's
# answers with one and the same seed.
STORED = ["own_votes"]

# Of how many of a row's first answers a filter counts the votes.
HEARD = {"maj": 7, "maj@4": 4}


def sums(index):
    left, right = 11 + 3 * index, index % 9 + 1
    return {"question": f"{left} + {right}", "answer": str(left + right), "wrong": str(left + right + 10 * (index % 3))}
