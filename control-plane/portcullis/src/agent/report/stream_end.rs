use std::time::Duration;

use tonic::{Code, Status};

/// The pause before another stream.
const RECONNECT_PAUSE: Duration = Duration::from_secs(2);
/// The same at a control plane of an older release, which has no such service, or takes no such report of a Gateway's Envoy. A newer one
/// comes with a connection of its own.
const OLD_PEER_PAUSE: Duration = Duration::from_secs(60);

/// The node of the reports about the filter.
#[derive(Clone, Debug)]
pub(super) struct ReportingEnvoy {
    /// Its id.
    pub(super) node: String,
    /// The Gateway of its bootstrap.
    pub(super) gateway: Option<String>,
}

/// The end of a stream of reports.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ReportStreamEnd {
    /// Why it ended, for the log.
    pub(super) why: String,
    /// The time before another try.
    pub(super) pause: Duration,
}

impl ReportStreamEnd {
    /// The end of a stream of this Envoy.
    pub(super) fn of(status: &Status, envoy: &ReportingEnvoy) -> Self {
        let is_refused = matches!(status.code(), Code::InvalidArgument | Code::PermissionDenied);
        let (why, pause) = match (&envoy.gateway, status.code()) {
            (_, Code::Unimplemented) => ("it has no such service: an older release".to_owned(), OLD_PEER_PAUSE),
            (Some(_), _) if is_refused => {
                let why = format!("refused of a Gateway's Envoy, as by an older release: {}", status.message());
                (why, OLD_PEER_PAUSE)
            }
            _ => (status.message().to_owned(), RECONNECT_PAUSE),
        };
        Self { why, pause }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusal_by_an_older_release_is_tried_again_seldom() {
        let seldom = [(None, Code::Unimplemented), (Some("a/b"), Code::Unimplemented)];
        let of_gateway = [(Some("a/b"), Code::PermissionDenied), (Some("a/b"), Code::InvalidArgument)];
        let soon = [(None, Code::PermissionDenied), (None, Code::InvalidArgument), (Some("a/b"), Code::Unavailable)];
        let seldom = seldom.into_iter().chain(of_gateway).map(|one| (one, OLD_PEER_PAUSE));
        for ((gateway, code), pause) in seldom.chain(soon.map(|one| (one, RECONNECT_PAUSE))) {
            let envoy = ReportingEnvoy { node: "n".to_owned(), gateway: gateway.map(str::to_owned) };
            let found = ReportStreamEnd::of(&Status::new(code, "reason"), &envoy);
            assert_eq!(found.pause, pause, "{gateway:?} {code:?}");
            assert!(code == Code::Unimplemented || found.why.contains("reason"), "{found:?}");
        }
    }
}
