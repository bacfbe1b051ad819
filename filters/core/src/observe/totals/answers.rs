use portcullis_filter_config::activity::{Latency, OTHER, ServerActivity};

use super::super::responses::AnsweredRequests;
use super::super::servers::{NO_SERVER, ServerLabels, UNNAMED};

/// Answers by server.
#[derive(Debug, Default)]
pub(super) struct AnswerTotals {
    /// The servers of the newest configuration.
    names: ServerLabels,
    /// In order, so that they are found.
    servers: Vec<ServerTotals>,
}

#[derive(Debug)]
struct ServerTotals {
    server: Box<str>,
    answers: [u64; 6],
    latency: Latency,
}

impl AnswerTotals {
    /// Forgets servers that are gone, which otherwise would add up over the edits of a process.
    pub(super) fn keep(&mut self, names: &ServerLabels) {
        self.names = names.clone();
        let names = &self.names;
        self.servers.retain(|totals| is_kept(&totals.server, names));
    }

    pub(super) fn add(&mut self, server: &str, answered: &AnsweredRequests) {
        // Answers of a removed server count with the rest.
        let server = if is_kept(server, &self.names) { server } else { OTHER };
        let at = self.servers.binary_search_by(|totals| (*totals.server).cmp(server)).unwrap_or_else(|at| {
            self.servers.insert(at, ServerTotals::new(server));
            at
        });
        if let Some(totals) = self.servers.get_mut(at) {
            totals.add(answered);
        }
    }

    pub(super) fn activity(&self) -> Vec<ServerActivity> {
        let activity = |totals: &ServerTotals| ServerActivity {
            server: totals.server.to_string(),
            answers: totals.answers,
            latency: totals.latency.clone(),
            in_flight: 0,
        };
        self.servers.iter().map(activity).collect()
    }
}

impl ServerTotals {
    fn new(server: &str) -> Self {
        ServerTotals { server: server.into(), answers: [0; 6], latency: Latency::default() }
    }

    fn add(&mut self, answered: &AnsweredRequests) {
        let class = usize::from(answered.class).min(self.answers.len().saturating_sub(1));
        if let Some(answers) = self.answers.get_mut(class) {
            *answers = answers.saturating_add(answered.count);
        }
        for (bucket, count) in self.latency.buckets.iter_mut().zip(answered.durations) {
            *bucket = bucket.saturating_add(count);
        }
        self.latency.sum = self.latency.sum.saturating_add(answered.microseconds);
    }
}

fn is_kept(server: &str, names: &ServerLabels) -> bool {
    [NO_SERVER, UNNAMED, OTHER].contains(&server) || names.find(server.as_bytes()).is_some()
}
