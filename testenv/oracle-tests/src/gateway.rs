use std::time::Duration;

use portcullis_core::identity::UserInfo;
use portcullis_core::review::ReviewAnswers;
use portcullis_core::state_store::EphemeralState;
use portcullis_core::{Cluster, Decision, Gateway, Peer, RequestContext};
use portcullis_filter_config::{CONFIG_VERSION, ClusterConfig, FilterConfig};
use rustls_pki_types::UnixTime;
use serde_json::{Value, json};

/// The gateway's treatment of a request.
#[derive(Debug, PartialEq)]
pub enum Outcome {
    /// It goes upstream as this user, or without one.
    Forward(Option<UserInfo>),
    /// It ends with this HTTP status.
    Refuse(u16),
}

/// A request with what was asked on its way.
#[derive(Debug)]
pub struct Judged {
    /// The resource attributes of every SubjectAccessReview.
    pub asked: Vec<Value>,
    /// How it ended.
    pub outcome: Outcome,
}

/// A gateway in front of one cluster to which every user has access.
#[derive(Debug)]
pub struct Lab(Gateway, Cluster);

impl Default for Lab {
    fn default() -> Self {
        Lab::new(false)
    }
}

impl Lab {
    /// A gateway for which grants of constrained impersonation count as well, if `constrained`.
    #[allow(clippy::unwrap_used, reason = "a test helper whose failure is the test's")]
    pub fn new(constrained: bool) -> Self {
        let gateway = Gateway::compile(&FilterConfig::new("lab")).unwrap();
        let config: ClusterConfig = serde_json::from_value(json!({
            "version": CONFIG_VERSION, "name": "lab/-/prod", "identity": "prod", "authorities": ["prod"],
            "allowAnonymous": true, "upstreamIdentity": "Impersonate",
            "reviews": {
                "cluster": "upstream", "tokenTTLSeconds": 120, "rejectedTokenTTLSeconds": 10, "authorizedTTLSeconds": 300,
                "unauthorizedTTLSeconds": 30, "constrainedImpersonation": constrained,
            },
            "policies": [{"group": "all", "rules": [
                {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"], "nonResourceURLs": ["*"]},
            ]}],
        }))
        .unwrap();
        Lab(gateway, Cluster::compile(&config, &EphemeralState([7; 32])).unwrap())
    }

    /// Judges a GET of one pod. Questions are answered with yes, and every one is asked again: times move on by a day.
    pub fn judge(&self, headers: &[(Vec<u8>, Vec<u8>)], day: u64) -> Judged {
        self.judge_by(headers, day, |_| true)
    }

    /// The same, with answers by the resource attributes of each question.
    pub fn judge_by(&self, headers: &[(Vec<u8>, Vec<u8>)], day: u64, allows: impl Fn(&Value) -> bool) -> Judged {
        let uptime = Duration::from_secs(86_400 * day);
        let now = UnixTime::since_unix_epoch(Duration::from_secs(1_893_456_000) + uptime);
        let mut all: Vec<(&[u8], &[u8])> =
            vec![(b":method", b"GET"), (b":path", b"/api/v1/namespaces/n/pods/a"), (b":authority", b"prod")];
        all.extend(headers.iter().map(|(name, value)| (&**name, &**value)));
        let (mut answers, mut asked) = (ReviewAnswers::default(), Vec::new());
        loop {
            let scan = self.0.scan(Some(&self.1), all.iter().copied());
            let request = RequestContext { scan: &scan, peer: Peer::None, answers: &answers, now, uptime };
            let outcome = match self.0.decide(&self.1, &request) {
                Decision::Forward(forward) => Outcome::Forward(forward.user.map(|user| user.user().clone())),
                Decision::Refuse(refusal) | Decision::Queue(_, refusal) => Outcome::Refuse(refusal.code),
                Decision::Review(reviews) => {
                    for review in reviews {
                        let question: Value = serde_json::from_str(review.body()).unwrap_or_default();
                        let attributes = question.pointer("/spec/resourceAttributes").cloned().unwrap_or_default();
                        let status = json!({"allowed": allows(&attributes)});
                        let answer = json!({"kind": "SubjectAccessReview", "status": status}).to_string();
                        asked.push(attributes);
                        answers.push(review.key(), review.accept_answer(201, answer.as_bytes(), uptime));
                    }
                    continue;
                }
            };
            return Judged { asked, outcome };
        }
    }
}
