use crate::envelope::ACKNOWLEDGEMENT_BYTES;

/// A response to a callout.
#[derive(Clone, Copy, Debug)]
pub struct CalloutAnswer {
    /// HTTP status; 0 where there is no answer.
    pub status: u16,
    /// The header `grpc-status`, if there is one.
    pub grpc_status: Option<u16>,
    /// Length of the body.
    pub bytes: usize,
}

/// The reason that a report was not taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// No callout was made.
    Cluster,
    /// No answer came.
    Unanswered,
    /// An HTTP status.
    Status(u16),
    /// A gRPC status.
    Grpc(u16),
    /// A part has no acknowledgement.
    Refused,
    /// The number of clusters that are not in the report, which would be too long.
    Size(usize),
}

impl Failure {
    /// The reason that a report of that many parts was not taken, if it was not. Envoy hands no trailers on, and with them not the
    /// status of gRPC: every part has its acknowledgement in the body.
    pub(crate) fn of(answer: CalloutAnswer, parts: usize) -> Option<Self> {
        if let Some(status) = answer.grpc_status.filter(|status| *status != 0) {
            return Some(Failure::Grpc(status));
        }
        match answer.status {
            0 => Some(Failure::Unanswered),
            200 if answer.bytes == parts.saturating_mul(ACKNOWLEDGEMENT_BYTES) => None,
            200 => Some(Failure::Refused),
            status => Some(Failure::Status(status)),
        }
    }

    /// Whether a line about one says all about the other.
    pub(crate) fn is_like(&self, other: &Self) -> bool {
        matches!((self, other), (Failure::Size(_), Failure::Size(_))) || self == other
    }

    /// The reason in words, for a report of this node.
    pub(crate) fn reason(&self, node: &str) -> String {
        match self {
            Failure::Cluster => "there is no Envoy cluster of this name, or it has no endpoint".to_owned(),
            Failure::Unanswered => "no answer came".to_owned(),
            Failure::Status(status) => format!("HTTP status {status}"),
            Failure::Grpc(status) => format!("gRPC status {status}"),
            Failure::Refused => format!("it was refused; {node:?} has to be a name of the client certificate"),
            Failure::Size(left_out) => {
                format!(
                    "{left_out} clusters, the last ones by name, are left out, because the report would be too long"
                )
            }
        }
    }
}
