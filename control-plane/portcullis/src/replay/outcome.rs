use portcullis_core::gateway::Judgement;
use portcullis_core::refusal::Cause;
use portcullis_filter_config::{ClusterConfig, without_generation};
use serde::Serialize;

use super::record::LogRecord;

/// The treatment of a request: its policy with servers and flow control schema, or its refusal.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct MetOutcome {
    /// From 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) policy: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) server_group: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) schema: Option<String>,
    /// The word of metrics and logs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) refused: Option<&'static str>,
    /// The sentence of the refusal, where it is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) message: Option<String>,
}

/// Why a line is not judged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Unjudged {
    /// Not for these objects.
    OtherCluster,
    /// Refused for a reason that comes before access lists and policies, or beside them.
    Refused(&'static str),
}

/// Refusals that are not repeated: the log does not have what caused them.
const NOT_REPEATED: [Cause; 10] = [
    Cause::Loop,
    Cause::Misdirected,
    Cause::BadRequest,
    Cause::Unauthorized,
    Cause::Unchecked,
    Cause::ReviewFailed,
    Cause::GatewayCredential,
    Cause::Impersonation,
    Cause::NotConfigured,
    Cause::Internal,
];

impl MetOutcome {
    /// The outcome of a line. The second part is whether a limit refused the request: 429, after its policy was found.
    pub(super) fn logged(record: &LogRecord<'_>) -> Result<(Self, bool), Unjudged> {
        let met = || MetOutcome {
            policy: record.policy.parse().ok(),
            server_group: Some(record.server_group.clone().into_owned()).filter(|group| !group.is_empty()),
            schema: Some(&*record.schema).filter(|schema| !matches!(*schema, "" | "-")).map(str::to_owned),
            ..MetOutcome::default()
        };
        if record.decision != "refused" {
            return if record.policy.is_empty() { Err(Unjudged::Refused("client_left")) } else { Ok((met(), false)) };
        }
        let cause = Cause::ALL.into_iter().find(|cause| cause.as_str() == record.reason);
        match cause {
            Some(Cause::FlowControl | Cause::QueueFull | Cause::QueueTimeout) => Ok((met(), true)),
            Some(cause) if NOT_REPEATED.contains(&cause) => Err(Unjudged::Refused(cause.as_str())),
            Some(cause) => Ok((Self::refused(cause, record.policy.parse().ok(), None), false)),
            None if record.reason == "not_served" => Err(Unjudged::Refused("not_served")),
            None if record.reason == "unresolved" => Err(Unjudged::Refused("unresolved")),
            None => Err(Unjudged::Refused("malformed")),
        }
    }

    /// The outcome by a configuration.
    pub(super) fn judged(judgement: &Judgement, config: &ClusterConfig) -> Self {
        if let Some(refusal) = &judgement.refusal {
            return Self::refused(refusal.cause, judgement.policy, Some(refusal.message.to_string()));
        }
        let policies = config.policies.policies();
        let policy = judgement.policy.and_then(|policy| policies.get(policy));
        MetOutcome {
            policy: judgement.policy,
            server_group: policy.map(|policy| without_generation(&policy.group).to_owned()),
            schema: policy.and_then(|policy| policy.flow_control_schema.clone()),
            ..MetOutcome::default()
        }
    }

    fn refused(cause: Cause, policy: Option<usize>, message: Option<String>) -> Self {
        MetOutcome { policy, refused: Some(cause.as_str()), message, ..MetOutcome::default() }
    }

    /// Bytes of its texts.
    pub(super) fn bytes(&self) -> usize {
        [&self.server_group, &self.schema, &self.message].into_iter().flatten().map(String::len).sum()
    }

    /// Whether clients and servers meet the same, be it by another number.
    pub(super) fn is_like(&self, other: &Self) -> bool {
        (self.refused, &self.server_group, &self.schema) == (other.refused, &other.server_group, &other.schema)
    }
}
