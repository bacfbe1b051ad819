//! One replica divides limits that gateways share: the one that has the Lease for that.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use portcullis_limits::Limiter;
use portcullis_sources::KubernetesAccess;
use portcullis_xds::{GatewayReport, UnreadableReport};
use tokio::sync::watch;

use super::super::fleet::ServedObjects;
use super::{answer, counted_names, read};
use crate::leader::{Leadership, Tenure, Timing, campaign, limits_lease_name};

/// Runs for the Lease of the replica that divides limits, beside the one of that name, while an object has any.
pub(super) fn campaign_for_limits(
    access: &KubernetesAccess,
    lease_name: &str,
    mut served: watch::Receiver<Arc<ServedObjects>>,
) -> Leadership {
    let (sender, wanted) = watch::channel(false);
    tokio::spawn(async move {
        loop {
            sender.send_replace(served.borrow_and_update().have_global_limits());
            if served.changed().await.is_err() {
                return;
            }
        }
    });
    campaign(access, &limits_lease_name(lease_name), Timing::LIMITS, wanted)
}

/// Divides the limits while this replica leads.
pub(crate) struct LimitDivision {
    state: Mutex<Division>,
}

struct Division {
    served: watch::Receiver<Arc<ServedObjects>>,
    /// The time for which this replica divides. `None` where there are no replicas.
    tenure: Option<watch::Receiver<Option<Tenure>>>,
    /// `None` while another replica divides.
    limiter: Option<Limiter>,
    /// The term in which it was made, and the time of its last answer.
    term: u64,
    answered: Duration,
}

impl LimitDivision {
    pub(crate) fn new(
        served: watch::Receiver<Arc<ServedObjects>>,
        tenure: Option<watch::Receiver<Option<Tenure>>>,
    ) -> Self {
        let division = Division { served, tenure, limiter: None, term: 0, answered: Duration::ZERO };
        Self { state: Mutex::new(division) }
    }

    /// Answers a report with the gateway's parts; with nothing while another replica divides, and before objects were read. `now` is the
    /// time of a clock that goes on while the machine is suspended.
    pub(super) fn divide(&self, report: &GatewayReport, now: Duration) -> Result<Bytes, UnreadableReport> {
        if self.division().limiter(now).is_none() {
            return Ok(Bytes::new());
        }
        let (message, clusters) = read(&report.content)?;
        let holder = match self.division().limiter(now) {
            Some(limiter) => limiter.holder(&report.node, message.process, message.number, now),
            None => return Ok(Bytes::new()),
        };
        let Ok(holder) = holder else { return Ok(Bytes::new()) };
        let names = counted_names(&clusters, &self.division().served.borrow());
        let mut answers = Vec::new();
        for (cluster, name) in clusters.iter().zip(names) {
            // For each of them anew: other gateways' reports do not wait for a long one.
            let mut division = self.division();
            let newest = |limiter: &&mut Limiter| limiter.is_newest(&report.node, message.process, message.number);
            let Some(limiter) = division.limiter(now).filter(newest) else { return Ok(Bytes::new()) };
            let uses = cluster.uses();
            answers.extend(uses.map(|(schema, used)| limiter.exchange(holder, name.as_deref()?, schema, used, now)));
        }
        Ok(answer(message.number, answers, report.content.len()))
    }

    /// A panic leaves at most one report half taken: parts may then be reserved that no process has.
    fn division(&self) -> MutexGuard<'_, Division> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Division {
    /// The limiter with the limits of now; `None` while this replica does not divide. It knows nothing at first if another replica may
    /// have divided since it was made: it renews what gateways say that they have for as long as leases of that one may last.
    fn limiter(&mut self, now: Duration) -> Option<&mut Limiter> {
        let mut begins = now;
        if let Some(tenure) = &self.tenure {
            let Some(tenure) = *tenure.borrow() else {
                self.limiter = None;
                return None;
            };
            if now >= tenure.until {
                // It is kept: if the Lease is renewed late, no other replica has had it.
                return None;
            }
            if tenure.term != self.term {
                (self.limiter, self.term) = (None, tenure.term);
            }
            // Its own answers are those of an earlier limiter, too.
            begins = tenure.alone_since.max(self.answered).min(now);
        }
        // A limit that is not known yet has its parts from another replica: nothing revokes them.
        if !self.served.borrow().are_read() {
            return None;
        }
        self.answered = self.answered.max(now);
        if self.limiter.is_some() {
            begins = now;
        }
        let is_news = self.served.has_changed().unwrap_or(false) || self.limiter.is_none();
        let limiter = self.limiter.get_or_insert_with(Limiter::new);
        if is_news {
            limiter.configure(&self.served.borrow_and_update().global_limits(), begins);
        }
        Some(limiter)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use portcullis_filter_config::limits::{LimitPart, PartUse};
    use portcullis_report::limits::{MAX_USE_BYTES, PartsMessage, encode_use};
    use serde_json::json;

    use super::super::super::fleet::ServedObjectCache;
    use super::*;

    const CLUSTER: &str = "lab/-/c.example.com";

    fn served(max: u32) -> Arc<ServedObjects> {
        let schema = json!({"name": "few", "strategy": "globalAllocate", "maxRequestsInflight": {"max": 1},
            "globalMaxRequestsInflight": {"max": max}});
        let document = json!({
            "apiVersion": "proxy.kubegateway.io/v1alpha1", "kind": "UpstreamCluster",
            "metadata": {"name": "c.example.com"},
            "spec": {"servers": [{"endpoint": "https://10.0.0.1:6443"}], "flowControl": {"flowControlSchemas": [schema]}},
        });
        let documents = BTreeMap::from([("c.example.com".to_owned(), Arc::new(document))]);
        Arc::new(ServedObjectCache::default().read("lab", &documents))
    }

    /// A replica, its objects, the time for which it divides, and the number of the newest report.
    struct Replica {
        division: LimitDivision,
        served: watch::Sender<Arc<ServedObjects>>,
        tenure: watch::Sender<Option<Tenure>>,
        number: u64,
    }

    /// The time of a division that begins at that second.
    fn time(second: f64) -> Duration {
        Duration::from_secs(1_000) + Duration::from_secs_f64(second)
    }

    fn tenure(term: u64, until: f64, alone_since: f64) -> Option<Tenure> {
        Some(Tenure { term, until: time(until), alone_since: time(alone_since) })
    }

    impl Replica {
        fn new() -> Self {
            Self::of(served(10))
        }

        fn of(served: Arc<ServedObjects>) -> Self {
            let (served, receiver) = watch::channel(served);
            let (tenure, of_replica) = watch::channel(tenure(1, 1_000.0, 0.0));
            Replica { division: LimitDivision::new(receiver, Some(of_replica)), served, tenure, number: 0 }
        }

        fn send(&self, content: Vec<u8>, second: f64) -> Result<Bytes, UnreadableReport> {
            let report = GatewayReport { node: "gateway".to_owned(), instance: String::new(), content: content.into() };
            self.division.divide(&report, time(second))
        }

        /// The answer to a gateway that has so much; `None` if there is none.
        fn part(&mut self, held: u32, second: f64) -> Option<Option<u32>> {
            self.number += 1;
            let used = PartUse { held, ..PartUse::default() };
            let answer = self.send(encode_use(7, self.number, [(CLUSTER, "few", used)]), second).unwrap();
            let message = Some(answer).filter(|answer| !answer.is_empty())?;
            let parts = PartsMessage::read(&message).unwrap();
            assert_eq!(parts.number, self.number);
            Some(parts.parts().next().unwrap().map(|LimitPart { quota, .. }| quota))
        }
    }

    #[test]
    fn replica_divides_while_it_leads_and_learns_at_first() {
        let mut replica = Replica::new();
        assert_eq!(replica.part(0, 1.0), Some(None), "it has to learn");
        assert_eq!(replica.part(4, 3.0), Some(Some(4)), "the gateway keeps what it has");
        assert_eq!(replica.part(0, 3.2), Some(Some(10)), "since it is alone a lease has passed");
        replica.served.send_replace(served(6));
        assert_eq!(replica.part(10, 4.0), Some(Some(6)), "an edit is followed");
        replica.tenure.send_replace(None);
        assert_eq!(replica.part(6, 5.0), None);
        replica.tenure.send_replace(tenure(2, 1_000.0, 6.0));
        assert_eq!(replica.part(6, 6.1), Some(Some(6)));
        assert_eq!(replica.part(0, 9.0), Some(None), "another one would get nothing");
        assert_eq!(replica.part(0, 9.2), Some(Some(6)));
    }

    #[test]
    fn replica_whose_tenure_is_over_answers_nothing() {
        let mut replica = Replica::new();
        replica.tenure.send_replace(tenure(1, 10.0, 0.0));
        assert_eq!(replica.part(0, 9.9), Some(Some(10)));
        // No task has said so yet: the process may have been stopped.
        assert_eq!(replica.part(10, 10.0), None);
        // Renewed late. No other has divided, and what this one gave out is known.
        replica.tenure.send_replace(tenure(1, 20.0, 0.0));
        assert_eq!(replica.part(10, 11.0), Some(Some(10)));
        assert_eq!(replica.part(0, 15.0), Some(Some(10)), "its lease has ended, and that of no other");
        // Another one may have divided before this term, and this one before that.
        replica.tenure.send_replace(tenure(2, 30.0, 14.0));
        assert_eq!(replica.part(0, 18.0), Some(None), "its own answer was at 15 s");
        assert_eq!(replica.part(0, 18.2), Some(Some(10)));
    }

    #[test]
    fn replica_that_has_read_no_objects_yet_revokes_nothing() {
        let mut replica = Replica::of(Arc::default());
        assert_eq!(replica.part(4, 1.0), None, "the gateway keeps its part, and asks the next one");
        replica.served.send_replace(served(6));
        assert_eq!(replica.part(4, 2.0), Some(Some(4)));
        replica.served.send_replace(Arc::new(ServedObjectCache::default().read("lab", &BTreeMap::new())));
        assert_eq!(replica.part(4, 3.0), Some(None), "an object that is gone");
    }

    #[test]
    fn object_is_known_by_its_name_alone_but_not_twice() {
        let replica = Replica::new();
        let [alone, gone] = [("c.example.com", "few"), ("d.example.com", "few")];
        let held = PartUse { held: 4, ..PartUse::default() };
        for (number, names, expected) in
            [(1, &[alone, gone][..], [Some(4), None]), (2, &[alone, (CLUSTER, "few")], [None, Some(4)])]
        {
            let report = encode_use(1, number, names.iter().map(|(cluster, schema)| (*cluster, *schema, held)));
            let answer = PartsMessage::read(&replica.send(report, 1.0).unwrap()).unwrap();
            let quotas: Vec<_> = answer.parts().map(|part| part.map(|part| part.quota)).collect();
            assert_eq!(quotas, expected, "{names:?}");
        }
    }

    #[test]
    fn report_out_of_order_or_of_another_object_gets_no_part() {
        let replica = Replica::new();
        let used = PartUse::default();
        for content in [
            vec![0xff],
            encode_use(1, 1, [(CLUSTER, "few", used), (CLUSTER, "few", used)]),
            encode_use(1, 1, [(CLUSTER, "few", used), (CLUSTER, "a", used)]),
            encode_use(1, 1, [("lab/-/d", "few", used), (CLUSTER, "few", used)]),
            vec![0; MAX_USE_BYTES + 1],
        ] {
            assert!(replica.send(content, 1.0).is_err());
        }
        let others = encode_use(1, 1, [(CLUSTER, "gone", used), ("lab/-/d", "few", used)]);
        let answer = PartsMessage::read(&replica.send(others.clone(), 1.0).unwrap()).unwrap();
        assert_eq!(answer.parts().collect::<Vec<_>>(), [None, None]);
        assert!(replica.send(others, 1.0).unwrap().is_empty(), "it was answered");
    }
}
