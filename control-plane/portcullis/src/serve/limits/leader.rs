//! One replica divides limits that gateways share: the one that leads.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use portcullis_limits::{Limiter, RESERVED_FOR};
use portcullis_xds::{GatewayReport, UnreadableReport};
use tokio::sync::watch;

use super::super::fleet::ServedObjects;
use super::{answer, counted_names, read};

/// Divides the limits while this replica leads.
pub(crate) struct LimitDivision {
    state: Mutex<Division>,
}

struct Division {
    served: watch::Receiver<Arc<ServedObjects>>,
    /// Whether this replica leads. `None` where there are no replicas.
    leads: Option<watch::Receiver<bool>>,
    /// `None` while another replica leads.
    limiter: Option<Limiter>,
    /// When it was last asked for.
    asked: Duration,
}

impl LimitDivision {
    pub(crate) fn new(served: watch::Receiver<Arc<ServedObjects>>, leads: Option<watch::Receiver<bool>>) -> Self {
        Self { state: Mutex::new(Division { served, leads, limiter: None, asked: Duration::ZERO }) }
    }

    /// Answers a report with the gateway's parts; with nothing while another replica leads, and before objects were read. `now` is the
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
    /// The limiter with the limits of now. A replica that begins to lead begins with one that knows of no parts, also if it led
    /// before: another may have led meanwhile.
    fn limiter(&mut self, now: Duration) -> Option<&mut Limiter> {
        if let Some(leads) = &mut self.leads {
            let has_changed = leads.has_changed().unwrap_or(true);
            let is_leader = *leads.borrow_and_update();
            if has_changed || !is_leader {
                self.limiter = None;
            }
            if !is_leader {
                return None;
            }
        }
        // A limit that is not known yet has its parts from another replica: nothing revokes them.
        if !self.served.borrow().are_read() {
            return None;
        }
        // After a time in which this process may have been stopped, and another one may have led. All leases have ended.
        if now >= self.asked.saturating_add(RESERVED_FOR) {
            self.limiter = None;
        }
        self.asked = self.asked.max(now);
        let is_news = self.served.has_changed().unwrap_or(false) || self.limiter.is_none();
        let limiter = self.limiter.get_or_insert_with(Limiter::new);
        if is_news {
            limiter.configure(&self.served.borrow_and_update().global_limits(), now);
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

    /// A replica, its objects, whether it leads, and the number of the newest report.
    struct Replica {
        division: LimitDivision,
        served: watch::Sender<Arc<ServedObjects>>,
        leads: watch::Sender<bool>,
        number: u64,
    }

    impl Replica {
        fn new() -> Self {
            Self::of(served(10))
        }

        fn of(served: Arc<ServedObjects>) -> Self {
            let (served, receiver) = watch::channel(served);
            let (leads, is_leader) = watch::channel(true);
            Replica { division: LimitDivision::new(receiver, Some(is_leader)), served, leads, number: 0 }
        }

        fn send(&self, content: Vec<u8>, second: u64) -> Result<Bytes, UnreadableReport> {
            let report = GatewayReport { node: "gateway".to_owned(), instance: String::new(), content: content.into() };
            self.division.divide(&report, Duration::from_secs(1_000 + second))
        }

        /// The answer to a gateway that has so much; `None` if there is none.
        fn part(&mut self, held: u32, second: u64) -> Option<Option<u32>> {
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
    fn replica_divides_while_it_leads_and_begins_anew_afterwards() {
        let mut replica = Replica::new();
        assert_eq!(replica.part(0, 10), Some(None), "it has to learn");
        for second in 11..15 {
            replica.part(0, second);
        }
        assert_eq!(replica.part(0, 15), Some(Some(10)));
        replica.served.send_replace(served(6));
        assert_eq!(replica.part(10, 16), Some(Some(6)), "an edit is followed");
        replica.leads.send_replace(false);
        assert_eq!(replica.part(6, 17), None);
        replica.leads.send_replace(true);
        assert_eq!(replica.part(6, 18), Some(Some(6)), "the gateway keeps what it has");
        assert_eq!(replica.part(0, 18), Some(None), "and another one would get nothing");
        // A leader that was stopped knows of nothing either.
        for second in 19..24 {
            replica.part(0, second);
        }
        assert_eq!(replica.part(0, 24), Some(Some(6)));
        assert_eq!(replica.part(0, 30), Some(None));
    }

    #[test]
    fn replica_that_has_read_no_objects_yet_revokes_nothing() {
        let mut replica = Replica::of(Arc::default());
        assert_eq!(replica.part(4, 1), None, "the gateway keeps its part, and asks the next one");
        replica.served.send_replace(served(6));
        assert_eq!(replica.part(4, 2), Some(Some(4)));
        replica.served.send_replace(Arc::new(ServedObjectCache::default().read("lab", &BTreeMap::new())));
        assert_eq!(replica.part(4, 3), Some(None), "an object that is gone");
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
            let answer = PartsMessage::read(&replica.send(report, 1).unwrap()).unwrap();
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
            assert!(replica.send(content, 1).is_err());
        }
        let others = encode_use(1, 1, [(CLUSTER, "gone", used), ("lab/-/d", "few", used)]);
        let answer = PartsMessage::read(&replica.send(others.clone(), 1).unwrap()).unwrap();
        assert_eq!(answer.parts().collect::<Vec<_>>(), [None, None]);
        assert!(replica.send(others, 1).unwrap().is_empty(), "it was answered");
    }
}
