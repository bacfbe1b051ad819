//! Misbehaviour on demand.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::sync::watch;

/// The action instead of (or before) the response.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "camelCase")]
pub enum Action {
    /// Waits, then goes on with the next matching fault or the ordinary answer.
    Delay {
        /// How long, in milliseconds.
        millis: u64,
    },
    /// Answers this.
    Respond {
        /// Status code.
        status: u16,
        /// Header lines.
        #[serde(default)]
        headers: Vec<(String, String)>,
        /// Body.
        #[serde(default)]
        body: String,
    },
    /// Answers 200 with so many bytes, made as they are read.
    Large {
        /// How long the body is, MiB.
        mebibytes: u32,
    },
    /// Answers 401 as kube-apiserver does.
    Unauthorized,
    /// Resets the stream before any header: an HTTP/2 error code like 7 (REFUSED_STREAM) or 2 (INTERNAL_ERROR). Over
    /// HTTP/1.1 the connection is closed.
    ResetStream {
        /// The code (RFC 9113 section 7).
        code: u32,
    },
    /// Closes the TCP connection before any header, with everything on it.
    CloseConnection,
    /// Answers as usual and sends GOAWAY; running streams finish.
    Goaway,
    /// Waits until the faults are cleared or replaced, then goes on with the next matching fault (of those that were there
    /// when the request came) or the ordinary answer.
    Hold,
    /// Never answers.
    Hang,
}

/// A fault and the requests that it strikes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Fault {
    /// Start of the path with query.
    #[serde(default)]
    pub path_prefix: String,
    /// Only this method.
    #[serde(default)]
    pub method: Option<String>,
    /// How often; `None` = until cleared.
    #[serde(default)]
    pub times: Option<u32>,
    /// The action of the fault.
    pub action: Action,
}

impl Fault {
    /// A fault for all requests below a path, until cleared.
    pub fn new(path_prefix: &str, action: Action) -> Self {
        Self { path_prefix: path_prefix.to_owned(), method: None, times: None, action }
    }

    /// Only so often.
    #[must_use]
    pub fn times(self, times: u32) -> Self {
        Self { times: Some(times), ..self }
    }

    /// Only for this method.
    #[must_use]
    pub fn method(self, method: &str) -> Self {
        Self { method: Some(method.to_owned()), ..self }
    }

    fn strikes(&self, method: &str, target: &str) -> bool {
        let of_method = self.method.as_deref().is_none_or(|wanted| wanted == method);
        of_method && self.times != Some(0) && target.starts_with(&self.path_prefix)
    }
}

/// The faults of a server.
#[derive(Debug, Default)]
pub(crate) struct Faults {
    list: Mutex<Vec<Fault>>,
    /// Counts how often the faults were cleared or replaced.
    replaced: watch::Sender<u64>,
}

/// The faults of a request.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct AppliedFault {
    pub(crate) delay: Duration,
    pub(crate) is_held: bool,
    pub(crate) action: Option<Action>,
}

impl Faults {
    pub(crate) fn add(&self, fault: Fault) {
        self.lock().push(fault);
    }

    pub(crate) fn replace(&self, faults: Vec<Fault>) {
        *self.lock() = faults;
        self.replaced.send_modify(|count| *count += 1);
    }

    /// Changes when the faults are cleared or replaced.
    pub(crate) fn watch(&self) -> watch::Receiver<u64> {
        self.replaced.subscribe()
    }

    pub(crate) fn all(&self) -> Vec<Fault> {
        self.lock().clone()
    }

    /// Delays add up until the first fault that is not one. Counts down the faults that are used.
    pub(crate) fn strike(&self, method: &str, target: &str) -> AppliedFault {
        let mut struck = AppliedFault::default();
        for fault in self.lock().iter_mut().filter(|fault| fault.strikes(method, target)) {
            fault.times = fault.times.map(|times| times.saturating_sub(1));
            match &fault.action {
                Action::Delay { millis } => struck.delay += Duration::from_millis(*millis),
                Action::Hold => struck.is_held = true,
                other => {
                    struck.action = Some(other.clone());
                    break;
                }
            }
        }
        struck
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Fault>> {
        self.list.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::{Action, AppliedFault, Fault, Faults};
    use std::time::Duration;

    #[test]
    fn delays_add_up_and_counted_faults_run_out() {
        let faults = Faults::default();
        let delay = |millis| Fault::new("/a", Action::Delay { millis });
        faults.replace(vec![delay(5), delay(7).method("POST"), Fault::new("/a", Action::Hang).times(1), delay(100)]);
        let struck = |millis, action| AppliedFault { delay: Duration::from_millis(millis), is_held: false, action };
        assert_eq!(faults.strike("GET", "/b"), AppliedFault::default());
        assert_eq!(faults.strike("POST", "/a?x"), struck(12, Some(Action::Hang)));
        assert_eq!(faults.strike("GET", "/a"), struck(105, None));
    }

    #[test]
    fn faults_are_readable_as_json() {
        let text = r#"{"pathPrefix": "/a", "times": 2, "action": {"type": "resetStream", "code": 7}}"#;
        let fault: Fault = serde_json::from_str(text).unwrap();
        assert_eq!(fault, Fault::new("/a", Action::ResetStream { code: 7 }).times(2));
    }
}
