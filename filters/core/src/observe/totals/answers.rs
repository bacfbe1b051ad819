use std::collections::BTreeMap;

use portcullis_filter_config::activity::{Latency, OTHER, ServerActivity};

use super::super::responses::AnsweredRequests;
use super::super::servers::{NO_SERVER, ServerLabels, UNNAMED};

/// Answers by server.
#[derive(Debug, Default)]
pub(super) struct AnswerTotals {
    /// The servers of the newest configuration.
    names: ServerLabels,
    servers: BTreeMap<Box<str>, ServerTotals>,
}

#[derive(Debug, Default)]
struct ServerTotals {
    answers: [u64; 6],
    latency: Latency,
}

impl AnswerTotals {
    /// Forgets servers that are gone, which otherwise would add up over the edits of a process.
    pub(super) fn keep(&mut self, names: &ServerLabels) {
        self.names = names.clone();
        let names = &self.names;
        self.servers.retain(|server, _| is_kept(server, names));
    }

    pub(super) fn add(&mut self, server: &str, answered: &AnsweredRequests) {
        // Answers that a server gives after its removal are nobody's.
        let server = if is_kept(server, &self.names) { server } else { OTHER };
        if !self.servers.contains_key(server) {
            self.servers.insert(server.into(), ServerTotals::default());
        }
        let Some(totals) = self.servers.get_mut(server) else { return };
        let class = usize::from(answered.class).min(totals.answers.len().saturating_sub(1));
        if let Some(answers) = totals.answers.get_mut(class) {
            *answers = answers.saturating_add(answered.count);
        }
        for (bucket, count) in totals.latency.buckets.iter_mut().zip(answered.durations) {
            *bucket = bucket.saturating_add(count);
        }
        totals.latency.sum = totals.latency.sum.saturating_add(answered.microseconds);
    }

    pub(super) fn activity(&self) -> Vec<ServerActivity> {
        let activity = |(server, totals): (&Box<str>, &ServerTotals)| ServerActivity {
            server: server.to_string(),
            answers: totals.answers,
            latency: totals.latency.clone(),
        };
        self.servers.iter().map(activity).collect()
    }
}

fn is_kept(server: &str, names: &ServerLabels) -> bool {
    [NO_SERVER, UNNAMED, OTHER].contains(&server) || names.find(server.as_bytes()).is_some()
}
