//! How a judge is asked: every vote in every order, what was said before looked up first, until each has a verdict.

use futures::future::join_all;
use tidemill_domain::{Ending, Item, JudgeCost, Message, Penalties, Prompt, Reasoning};
use tidemill_inference::Request;
use tidemill_telemetry::Metric;

use super::endpoint::{Endpoint, STALL, Stopped};
use super::grammar::{self, Verdict};
use super::verdicts::{Reply, key};
use super::{Ballot, Judge, NAME, tail};
use crate::Error;
use crate::answer::{Answer, Finding};
use crate::runner::{Judging, Runner, Runners};

/// How much of a reply is kept, from its end, where the verdict stands; more where that takes more.
const KEPT_BYTES: usize = 16 << 10;

/// A reply of which more would have to be kept is not: it is asked for again.
const MOST_KEPT_BYTES: usize = 256 << 10;

/// How much of a reply that held no verdict its sample's reason shows.
const SHOWN_BYTES: usize = 120;

impl Runner for Judge {
    fn name(&self) -> &'static str {
        NAME
    }

    fn judge<'a>(&'a self, runners: &'a Runners, item: &'a Item, answer: &'a Answer<'a>) -> Judging<'a> {
        Box::pin(async move {
            let Some(questions) = self.questions(item, answer)? else {
                return Ok(None);
            };
            let endpoint = runners.judges.endpoint(&self.spec.judge)?;
            let _held = endpoint.hold()?;
            self.ask(runners, endpoint, &questions).await.map(Some)
        })
    }
}

impl Judge {
    async fn ask(&self, runners: &Runners, endpoint: &Endpoint, questions: &[Vec<Message>]) -> Result<Finding, Error> {
        let votes = questions.iter().flat_map(|question| {
            (0..self.spec.votes.max(1)).map(move |vote| self.vote(runners, endpoint, question, vote))
        });
        let votes = join_all(votes).await;
        let cost = votes
            .iter()
            .map(|(_, cost)| *cost)
            .fold(JudgeCost::default(), JudgeCost::and);
        let mut verdicts = Vec::with_capacity(votes.len());
        let mut refused = None;
        for (verdict, _) in votes {
            match verdict {
                Ok(verdict) => verdicts.push(verdict),
                Err(Stopped::Postponed(postponed)) => return Err(Error::Postponed(postponed)),
                Err(Stopped::NoVerdict(reason)) => refused = refused.or(Some(reason)),
            }
        }
        if let Some(reason) = refused {
            return Err(Error::NoVerdict { reason, cost });
        }
        let ballots: Vec<Ballot> = verdicts
            .chunks(self.spec.votes.max(1) as usize)
            .map(<[Verdict]>::to_vec)
            .collect();
        let (finding, disagreed) = self.settled(&ballots, endpoint.model())?;
        let cost = JudgeCost { disagreed, ..cost };
        Ok(Finding {
            judge: Some(cost),
            ..finding
        })
    }

    /// One verdict on a question, and what it took.
    async fn vote(
        &self,
        runners: &Runners,
        endpoint: &Endpoint,
        question: &[Message],
        vote: u32,
    ) -> (Result<Verdict, Stopped>, JudgeCost) {
        let mut cost = JudgeCost {
            verdicts: 1,
            ..JudgeCost::default()
        };
        let key = key(&self.spec, endpoint.model(), question, vote);
        let known = runners.judges.verdicts.find(&key).await;
        if let Some(verdict) = known.and_then(|reply| grammar::read(&self.spec, &reply.text)) {
            cost.cached = 1;
            tidemill_telemetry::count(Metric::JudgeVerdicts, [("result", "cached")]);
            return (Ok(verdict), cost);
        }
        let verdict = match self.new_vote(endpoint, question, vote, &mut cost).await {
            Ok((verdict, reply)) => {
                if reply.text.len() <= MOST_KEPT_BYTES {
                    runners.judges.verdicts.keep(&key, &reply).await;
                }
                tidemill_telemetry::count(Metric::JudgeVerdicts, [("result", "asked")]);
                Ok(verdict)
            }
            Err(stopped) => Err(stopped),
        };
        (verdict, cost)
    }

    async fn new_vote(
        &self,
        endpoint: &Endpoint,
        question: &[Message],
        vote: u32,
        cost: &mut JudgeCost,
    ) -> Result<(Verdict, Reply), Stopped> {
        let mut messages = question.to_vec();
        let mut last = String::new();
        for attempt in 0..endpoint.attempts() {
            let prompt = Prompt::Chat(messages);
            let request = self.request(&prompt, u64::from(vote) + (u64::from(attempt) << 16));
            let reply = endpoint.ask(&request, cost).await?;
            // What the cap or a filter cut may end like a verdict and be none.
            let is_whole = !reply.truncated && reply.ending == Ending::Stop;
            let said = Answer::of(&reply.text, &Reasoning::Think);
            if let Some(said) = said.as_ref().filter(|_| is_whole)
                && let Some(verdict) = grammar::read(&self.spec, said.text())
            {
                let reply = Reply {
                    text: grammar::end(&self.spec, said.text(), KEPT_BYTES),
                    prompt_tokens: reply.prompt_tokens,
                    completion_tokens: reply.completion_tokens,
                };
                return Ok((verdict, reply));
            }
            cost.unreadable += 1;
            tidemill_telemetry::count(Metric::JudgeVerdicts, [("result", "unreadable")]);
            messages = self.again(question, said.as_ref().map_or("", Answer::text));
            last = tail(reply.text.trim(), SHOWN_BYTES).to_owned();
        }
        Err(Stopped::NoVerdict(format!(
            "judge {} gave no verdict in {} replies, the last of which ends {last:?}; wanted is {}",
            endpoint.name(),
            endpoint.attempts(),
            self.spec.wanted()
        )))
    }

    const fn request<'p>(&self, prompt: &'p Prompt, seed: u64) -> Request<'p> {
        Request {
            prompt,
            max_tokens: self.spec.max_tokens,
            temperature: self.spec.temperature,
            top_p: 1.0,
            stop: &[],
            seed: Some(seed),
            penalties: Penalties {
                frequency: 0.0,
                presence: 0.0,
                repetition: 1.0,
            },
            stream: false,
            stall_timeout: STALL,
        }
    }
}
