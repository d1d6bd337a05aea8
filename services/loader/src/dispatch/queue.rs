//! The items of one benchmark in the order in which they are released: longest expected answers first, prompts that begin alike
//! together. A pure rule.
//!
//! The samples of an item go out together, since they share the whole prompt, in passes over the items: where nothing is known of
//! the items, a first sample of each goes before the others, and tells how long those will be; spare samples go last.
//!
//! Nothing is sorted. An item takes a byte, its class of expected length, and two classes are told apart by going through
//! those bytes again, which takes less than a sorted list of a million items would in memory. So an expectation may change
//! at any time for the price of writing its byte.

use std::collections::VecDeque;
use std::ops::Range;

use tidemill_domain::{
    AnswerLength, Benchmark, Expectation, Lengths, Prefixes, Spread, answer_class, class_length, length_class,
};

use super::drift::Drift;
use super::ordinals::Ordinals;

/// Items that are taken out of the order at once, to be put together by their prompts' beginnings.
const CHUNK: usize = 4_096;

/// Above all classes: no class was gone through yet.
const NO_SWEEP: u16 = 256;

#[derive(Debug)]
pub(super) struct Queue {
    /// Ordinal of the first sample of the first item.
    first: u32,
    items: u32,
    samples: u32,
    /// Samples of each item that are not spare.
    required: u32,
    /// The class of the cap; 0 where nothing is generated.
    cap: u8,
    /// Samples of each item, pass after pass; the first is that which is under way.
    passes: VecDeque<Range<u32>>,
    /// Items that the pass has not taken.
    remaining: u32,
    /// The first item that was not looked at in this pass, or in this sweep of it.
    cursor: u32,
    /// Ordinals of the item that is under way.
    at: Range<u32>,
    /// What is known of single items.
    book: Option<Book>,
    prefixes: Prefixes,
    drift: Drift,
    /// No answer of an earlier checkpoint is known: what is expected is a guess from above.
    is_guess: bool,
    /// Expected tokens of one sample of each item, and of those that the pass has not taken.
    tokens: u64,
    waiting_tokens: u64,
}

/// What is known of single items.
#[derive(Debug)]
struct Book {
    /// The class of the answer expected of each item; of those that are seen, that of the longest answer there was.
    classes: Vec<u8>,
    /// Items of which an answer came.
    seen: Ordinals,
    /// Items whose answer was cut.
    cut: Ordinals,
    /// Items that the pass has taken.
    taken: Ordinals,
    /// How many items of each class it has not.
    waiting: Box<[u32; 256]>,
    /// The class that is gone through.
    sweep: u16,
    /// The first item that may still be taken by its place.
    in_place: u32,
    /// Items that turned out longer than those that are gone through.
    late: Vec<u32>,
    /// Taken, and next.
    chunk: VecDeque<u32>,
}

/// Tokens that an answer is taken to cost of whose benchmark nothing is known: what it took beyond that is charged when it ends.
const COST_OF_A_GUESS: u64 = 1_024;

impl Queue {
    pub(super) fn new(benchmark: &Benchmark, first: u32) -> Self {
        let cap = if benchmark.is_likelihood() {
            0
        } else {
            length_class(u64::from(benchmark.settings.max_tokens))
        };
        let samples = benchmark.settings.samples;
        let mut queue = Self {
            first,
            items: benchmark.items,
            samples,
            required: benchmark.required_samples(),
            cap,
            passes: VecDeque::new(),
            remaining: 0,
            cursor: 0,
            at: 0..0,
            book: None,
            prefixes: Prefixes::default(),
            drift: Drift::default(),
            is_guess: true,
            tokens: u64::from(benchmark.items) * class_length(cap),
            waiting_tokens: 0,
        };
        queue.begin(false);
        queue
    }

    /// Takes in what is expected of the items. All are gone through anew: those that were taken are no longer left. What answers
    /// have said stays.
    pub(super) fn expect(&mut self, expectation: Expectation) {
        let mut learnt = None;
        self.prefixes = expectation.prefixes;
        self.is_guess = expectation.known == 0;
        if expectation.classes.len() == self.items as usize {
            self.tokens = expectation.classes.iter().map(|class| class_length(*class)).sum();
            learnt = self.book.replace(Book::new(expectation.classes));
            // It compared answers with what was expected before.
            self.drift = Drift::default();
        }
        self.at = 0..0;
        self.begin(u64::from(expectation.known) * 2 >= u64::from(self.items));
        if let Some(learnt) = learnt {
            let seen = (0..self.items).filter(|item| learnt.seen.contains(*item));
            seen.for_each(|item| self.note(item, learnt.classes[item as usize], learnt.cut.contains(item)));
        }
    }

    /// Plans the passes. Where most items are known, a first sample has nothing to tell.
    fn begin(&mut self, is_known: bool) {
        let first = if is_known || self.cap == 0 {
            self.required
        } else {
            self.required.min(1)
        };
        self.passes = [0..first, first..self.required, self.required..self.samples]
            .into_iter()
            .filter(|pass| !pass.is_empty())
            .collect();
        self.begin_pass();
    }

    fn begin_pass(&mut self) {
        (self.remaining, self.cursor, self.waiting_tokens) = (self.items, 0, self.tokens);
        if let Some(book) = &mut self.book {
            book.begin_pass();
        }
    }

    /// The pass that the next item belongs to; `None` when nothing is left.
    fn pass(&self) -> Option<&Range<u32>> {
        if self.at.is_empty() && self.remaining == 0 {
            return self.passes.get(1);
        }
        self.passes.front()
    }

    /// Whether the next sample is a spare one; `None` when nothing is left.
    pub(super) fn is_spare(&self) -> Option<bool> {
        self.pass().map(|pass| pass.start >= self.required)
    }

    /// The next sample that is left, with the class of its expected length; it stays the next one until it is taken. Items
    /// shorter than class `bulk` are taken as their prompts lie together.
    pub(super) fn peek(&mut self, bulk: u8, is_left: impl Fn(u32) -> bool) -> Option<(u32, u8)> {
        loop {
            while let Some(ordinal) = self.at.clone().next() {
                if is_left(ordinal) {
                    return Some((ordinal, self.expected(self.item_of(ordinal))));
                }
                self.at.next();
            }
            if self.remaining == 0 {
                self.passes.pop_front();
                if self.passes.is_empty() {
                    return None;
                }
                self.begin_pass();
            }
            let pass = self.passes.front()?.clone();
            let item = self.take_item(bulk);
            self.remaining -= 1;
            let first = self.first + item * self.samples;
            self.at = first + pass.start..first + pass.end;
        }
    }

    /// Takes the sample that was looked at.
    pub(super) fn take(&mut self) {
        self.at.next();
    }

    /// Notes that a sample was released. Returns the class that was expected of it at first, for when it ends; 0 where its answer
    /// tells nothing of the benchmark: an item's later samples are expected by its earlier ones.
    pub(super) fn released(&mut self, ordinal: u32) -> u8 {
        let item = self.item_of(ordinal);
        if self.book.as_ref().is_some_and(|book| book.seen.contains(item)) {
            return 0;
        }
        let class = self.class(item);
        self.drift.release(class);
        class
    }

    fn take_item(&mut self, bulk: u8) -> u32 {
        let groups = self.prefixes.table.len();
        let item = match &mut self.book {
            Some(book) => book.take(&mut self.cursor, if groups > 1 { bulk } else { 0 }, &self.prefixes),
            None => {
                self.cursor += 1;
                self.cursor - 1
            }
        };
        self.waiting_tokens = self.waiting_tokens.saturating_sub(class_length(self.class(item)));
        item
    }

    /// Whether a sample is a spare one.
    pub(super) fn spares(&self, ordinal: u32) -> bool {
        (ordinal - self.first) % self.samples.max(1) >= self.required
    }

    fn item_of(&self, ordinal: u32) -> u32 {
        (ordinal - self.first) / self.samples.max(1)
    }

    /// The class that an item was given.
    fn class(&self, item: u32) -> u8 {
        let of_book = self
            .book
            .as_ref()
            .and_then(|book| book.classes.get(item as usize).copied());
        of_book.unwrap_or(self.cap)
    }

    /// The class that is expected of an item by now.
    fn expected(&self, item: u32) -> u8 {
        let class = self.class(item);
        let is_seen = self.book.as_ref().is_some_and(|book| book.seen.contains(item));
        if class == 0 || is_seen {
            return class;
        }
        self.drift.applied(class).min(self.cap)
    }

    /// How many tokens the answer to a sample is expected to have; 0 where nothing is generated.
    pub(super) fn expected_tokens(&self, ordinal: u32) -> u32 {
        u32::try_from(class_length(self.expected(self.item_of(ordinal)))).unwrap_or(u32::MAX)
    }

    /// What an answer is taken to cost before it ends. A guess near the cap would have a team pay for answers that nobody gives
    /// and wait until they ended.
    pub(super) fn cost(&self, ordinal: u32) -> u64 {
        let expected = u64::from(self.expected_tokens(ordinal));
        if self.is_guess {
            expected.min(COST_OF_A_GUESS)
        } else {
            expected
        }
    }

    pub(super) fn prefix(&self, ordinal: u32) -> u64 {
        self.prefixes.of(self.item_of(ordinal))
    }

    /// Tokens that are expected of what was not taken.
    pub(super) fn work(&self) -> u64 {
        let mut passes = self.passes.iter().map(|pass| u64::from(pass.end - pass.start));
        let now = passes.next().unwrap_or(0) * self.waiting_tokens;
        let later: u64 = passes.map(|width| width * self.tokens).sum();
        self.drift.scaled(now + later)
    }

    /// Notes that a sample ended, and how long its answer was. `released`: what [`Queue::released`] said of it; 0 for one that
    /// was not released here.
    pub(super) fn ended(&mut self, ordinal: u32, length: Option<AnswerLength>, released: u8) {
        let Some(length) = length.filter(|_| self.cap > 0) else {
            self.drift.lost(released);
            return;
        };
        let class = answer_class(length);
        if released > 0 {
            self.drift.ended(class);
        }
        self.note(self.item_of(ordinal), class, length.is_cut);
    }

    fn note(&mut self, item: u32, class: u8, is_cut: bool) {
        let (items, cap, cursor) = (self.items, self.cap, self.cursor);
        let book = self.book.get_or_insert_with(|| Book::of_alike(items, cap, cursor));
        let before = book.classes[item as usize];
        let now = if book.seen.contains(item) {
            before.max(class)
        } else {
            class
        };
        book.seen.insert(item);
        if is_cut {
            book.cut.insert(item);
        }
        self.tokens = (self.tokens + class_length(now)).saturating_sub(class_length(before));
        if book.change(item, now) {
            self.waiting_tokens = (self.waiting_tokens + class_length(now)).saturating_sub(class_length(before));
        }
    }

    /// How long the answers were that came to the items of a range.
    pub(super) fn lengths(&self, items: Range<u32>) -> Lengths {
        let mut lengths = Lengths::unknown(items.len());
        if let Some(book) = &self.book {
            for (index, item) in items.enumerate().filter(|(_, item)| book.seen.contains(*item)) {
                lengths.set(index, book.classes[item as usize], book.cut.contains(item));
            }
        }
        lengths
    }

    /// The distribution of the answers that came.
    pub(super) fn spread(&self) -> Option<Spread> {
        let book = self.book.as_ref()?;
        let mut counts = [0; 256];
        for item in (0..self.items).filter(|item| book.seen.contains(*item)) {
            counts[usize::from(book.classes[item as usize])] += 1;
        }
        Spread::of(&counts)
    }

    /// Bytes that it takes beside itself.
    #[cfg(test)]
    pub(super) fn state_bytes(&self) -> usize {
        self.prefixes.groups.capacity() + self.book.as_ref().map_or(0, Book::state_bytes)
    }
}

impl Book {
    fn new(classes: Vec<u8>) -> Self {
        let items = classes.len() as u64;
        Self {
            classes,
            seen: Ordinals::none_of(items),
            cut: Ordinals::none_of(items),
            taken: Ordinals::none_of(items),
            waiting: Box::new([0; 256]),
            sweep: NO_SWEEP,
            in_place: 0,
            late: Vec::new(),
            chunk: VecDeque::new(),
        }
    }

    /// Of items that were all expected alike, of which the first so many are taken.
    fn of_alike(items: u32, class: u8, taken: u32) -> Self {
        let mut book = Self::new(vec![class; items as usize]);
        book.begin_pass();
        (0..taken).for_each(|item| book.mark(item));
        book
    }

    fn begin_pass(&mut self) {
        self.taken.clear();
        self.waiting.fill(0);
        for class in &self.classes {
            self.waiting[usize::from(*class)] += 1;
        }
        (self.sweep, self.in_place) = (NO_SWEEP, 0);
        self.late.clear();
        self.chunk.clear();
    }

    fn mark(&mut self, item: u32) {
        if self.taken.insert(item) {
            self.waiting[usize::from(self.classes[item as usize])] -= 1;
        }
    }

    /// Takes the next item, of which there is one.
    fn take(&mut self, cursor: &mut u32, bulk: u8, prefixes: &Prefixes) -> u32 {
        if let Some(item) = self.late.pop() {
            return item;
        }
        if self.chunk.is_empty() {
            self.fill(cursor, bulk, prefixes);
        }
        self.chunk.pop_front().unwrap_or(0)
    }

    fn fill(&mut self, cursor: &mut u32, bulk: u8, prefixes: &Prefixes) {
        let longest = self.waiting.iter().rposition(|count| *count > 0).unwrap_or(0) as u8;
        let mut chunk = if longest < bulk {
            self.by_place()
        } else {
            self.by_class(longest, cursor)
        };
        // Stable, so that those of one beginning stay in their order.
        chunk.sort_by_key(|item| prefixes.groups.get(*item as usize).copied().unwrap_or(0));
        self.chunk = chunk.into();
    }

    /// The next items that wait, whatever their classes.
    fn by_place(&mut self) -> Vec<u32> {
        let mut chunk = Vec::new();
        while chunk.len() < CHUNK && (self.in_place as usize) < self.classes.len() {
            if !self.taken.contains(self.in_place) {
                self.mark(self.in_place);
                chunk.push(self.in_place);
            }
            self.in_place += 1;
        }
        chunk
    }

    /// The next items that wait of a class.
    fn by_class(&mut self, class: u8, cursor: &mut u32) -> Vec<u32> {
        if self.sweep != u16::from(class) {
            (self.sweep, *cursor) = (u16::from(class), 0);
        }
        let mut chunk = Vec::new();
        while chunk.len() < CHUNK {
            let rest = self.classes.get(*cursor as usize..).unwrap_or_default();
            let Some(step) = memchr::memchr(class, rest) else {
                // Whatever is left of the class lies before: a change brought it there.
                if chunk.is_empty() && self.waiting[usize::from(class)] > 0 {
                    *cursor = 0;
                    continue;
                }
                break;
            };
            let item = *cursor + step as u32;
            *cursor = item + 1;
            if !self.taken.contains(item) {
                self.mark(item);
                chunk.push(item);
            }
        }
        chunk
    }

    /// Gives an item another class. Returns whether the pass has not taken it.
    fn change(&mut self, item: u32, class: u8) -> bool {
        let is_waiting = !self.taken.contains(item);
        if is_waiting {
            self.waiting[usize::from(self.classes[item as usize])] -= 1;
            if u16::from(class) >= self.sweep {
                // Those of its class were gone through: it is next.
                self.taken.insert(item);
                self.late.push(item);
            } else {
                self.waiting[usize::from(class)] += 1;
            }
        }
        self.classes[item as usize] = class;
        is_waiting
    }

    #[cfg(test)]
    fn state_bytes(&self) -> usize {
        let bits = [&self.seen, &self.cut, &self.taken].map(Ordinals::state_bytes);
        let lists = self.late.capacity() + self.chunk.capacity();
        self.classes.capacity() + bits.iter().sum::<usize>() + size_of_val(&*self.waiting) + lists * size_of::<u32>()
    }
}
