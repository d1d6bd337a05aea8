//! Which solved examples precede a prompt, and how they look.

use crate::support::{Folder, question_suite, suite};
use tidemill_domain::{Item, Prompt};

const SHOTS: &str = r#"{"id": "a", "q": "1", "a": "one"}
{"id": "b", "q": "2", "a": "two"}
{"id": 3, "q": "3", "a": "three"}
{"id": "d", "q": "4", "a": "four"}
{"id": "e", "q": "5", "a": "five"}
"#;

fn folder(fields: &str, rows: &str) -> Folder {
    let fields = format!("id = \"id\"\nfew_shot_data = \"shots.jsonl\"\n{fields}");
    Folder::new()
        .with("suite.toml", question_suite(&fields))
        .with("rows.jsonl", rows)
        .with("shots.jsonl", SHOTS)
}

fn rows(count: usize) -> String {
    let row = |number: usize| format!("{{\"id\": \"q{number}\", \"q\": \"{number}+0\", \"a\": \"{number}\"}}\n");
    (10..10 + count).map(row).collect()
}

fn prompts(items: &[Item]) -> Vec<String> {
    let text = |item: &'_ Item| -> String {
        match &item.prompt {
            Prompt::Text(text) => text.clone(),
            Prompt::Chat(_) => panic!("a chat"),
        }
    };
    items.iter().map(text).collect()
}

#[test]
fn examples_named_by_id_stand_in_the_order_of_the_names() {
    let items = folder("few_shot_ids = [\"d\", 3]", &rows(2)).items();
    assert_eq!(prompts(&items)[0], "Q: 4\nA: four\n\nQ: 3\nA: three\n\nQ: 10+0\nA:");
    assert!(prompts(&items)[1].starts_with("Q: 4\nA: four\n\nQ: 3"));
}

#[test]
fn with_fewer_examples_than_ids_an_item_among_them_takes_the_next_one() {
    let items = folder("few_shot = 1\nfew_shot_ids = [\"b\", \"a\"]", SHOTS).items();
    assert_eq!(prompts(&items)[0], "Q: 2\nA: two\n\nQ: 1\nA:");
    assert_eq!(prompts(&items)[1], "Q: 1\nA: one\n\nQ: 2\nA:");
}

#[test]
fn random_examples_differ_by_item_and_seed_and_are_always_the_same() {
    let of = |seed: u32| {
        let fields = format!("few_shot = 2\nfew_shot_choice = \"random\"\nfew_shot_seed = {seed}");
        folder(&fields, &rows(6)).items()
    };
    let first = of(1);
    // Computed by another implementation of BLAKE3, from the words of docs/suites.md.
    let drawn = [[5, 1], [5, 4], [3, 5], [5, 3], [5, 2], [4, 1]];
    let words = ["one", "two", "three", "four", "five"];
    for (prompt, (drawn, number)) in prompts(&first).iter().zip(drawn.iter().zip(10..)) {
        let examples = drawn.map(|place: usize| format!("Q: {place}\nA: {}\n\n", words[place - 1]));
        assert_eq!(*prompt, format!("{}Q: {number}+0\nA:", examples.concat()));
    }
    assert_eq!(prompts(&first), prompts(&of(1)));
    assert_ne!(prompts(&first), prompts(&of(2)));
    let prompts = prompts(&first);
    let beginnings: std::collections::HashSet<&str> = prompts
        .iter()
        .map(|prompt| prompt.rsplit_once("\n\n").unwrap().0)
        .collect();
    assert!(beginnings.len() > 1, "{beginnings:?}");
}

#[test]
fn random_examples_never_hold_the_item_itself_and_reach_all_others() {
    let items = folder("few_shot = 4\nfew_shot_choice = \"random\"", SHOTS).items();
    for (item, own) in prompts(&items).iter().zip(["one", "two", "three", "four", "five"]) {
        for word in ["one", "two", "three", "four", "five"] {
            assert_eq!(item.contains(&format!("A: {word}")), word != own, "{item}");
        }
    }
}

#[test]
fn the_order_of_items_and_other_items_do_not_change_what_is_drawn() {
    let fields = "few_shot = 2\nfew_shot_choice = \"random\"";
    let all = folder(fields, &rows(6)).items();
    let last: String = rows(6).lines().skip(5).collect();
    let alone = folder(fields, &last).items();
    assert_eq!(prompts(&all)[5], prompts(&alone)[0]);
}

#[test]
fn examples_may_look_other_than_the_prompt() {
    let fields = "few_shot = 2\nfew_shot_prompt = \"{{ q }} is {{ a }}\"\nfew_shot_separator = \"; \"";
    let items = folder(fields, &rows(1)).items();
    assert_eq!(prompts(&items)[0], "1 is one; 2 is two; Q: 10+0\nA:");
}

#[test]
fn examples_of_a_chat_are_turns_of_their_own() {
    let fields = r#"data = "rows.jsonl"
system = "Be brief."
messages = [{ role = "user", content = "{{ q }}" }]
few_shot_messages = [{ role = "user", content = "Say {{ q }}." }, { role = "assistant", content = "{{ a }}!" }]
target = "{{ a }}"
few_shot = 1
few_shot_data = "shots.jsonl""#;
    let items = Folder::new()
        .with("suite.toml", suite(fields))
        .with("rows.jsonl", rows(1))
        .with("shots.jsonl", SHOTS)
        .items();
    let Prompt::Chat(turns) = &items[0].prompt else {
        panic!("not a chat");
    };
    let turns: Vec<_> = turns
        .iter()
        .map(|turn| (turn.role.as_str(), turn.content.as_str()))
        .collect();
    let expected = [
        ("system", "Be brief."),
        ("user", "Say 1."),
        ("assistant", "one!"),
        ("user", "10+0"),
    ];
    assert_eq!(turns, expected);
}

#[test]
fn wishes_for_examples_that_cannot_be_met_are_refused() {
    let texts = [
        "few_shot = 3\nfew_shot_ids = [\"a\"]",
        "few_shot_ids = [\"a\", \"a\"]",
        "few_shot_ids = []",
        "few_shot_ids = [1.5]",
        "few_shot_ids = [\"a\", \"zz\"]",
        "few_shot_ids = [\"a\"]\nfew_shot_choice = \"first\"",
        "few_shot = 1\nfew_shot_choice = \"best\"",
        "few_shot = 6\nfew_shot_choice = \"random\"",
        "few_shot = 1\nfew_shot_prompt = \"{{ qq }}\"",
        "few_shot = 1\nfew_shot_prompt = \"{{ q\"",
        "few_shot = 1\nfew_shot_messages = [{ role = \"assistant\", content = \"x\" }]",
        "few_shot = 1\nfew_shot_messages = [{ role = \"user\", content = \"x\" }]",
    ];
    let errors: Vec<String> = texts
        .iter()
        .map(|fields| {
            format!(
                "{fields}\n  {}",
                folder(fields, &rows(1)).errors().replace('\n', "\n  ")
            )
        })
        .collect();
    insta::assert_snapshot!(errors.join("\n"));
    let without_id = question_suite("few_shot_ids = [\"a\"]\nfew_shot_data = \"shots.jsonl\"");
    let without_id = Folder::new()
        .with("suite.toml", without_id)
        .with("rows.jsonl", rows(1))
        .with("shots.jsonl", SHOTS);
    assert!(
        without_id.errors().contains("needs id, the column"),
        "{}",
        without_id.errors()
    );
}

#[test]
fn examples_that_are_not_used_are_warned_of() {
    let warnings = folder("few_shot_seed = 3", &rows(1)).warnings();
    for part in [
        "few_shot_seed: is not used",
        "few_shot_data: is not used",
        "only few_shot_choice = \"random\"",
    ] {
        assert!(warnings.contains(part), "{warnings}");
    }
}
