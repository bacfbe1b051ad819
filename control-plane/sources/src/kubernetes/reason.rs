use kube::runtime::watcher;

/// Why the API did not answer as it should, for people. Only what the server says of a refusal is quoted: the text of
/// other errors may hold a piece of an answer, and answers hold keys.
pub(super) fn reason(what: &str, error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) if status.code == 404 => {
            format!("{what}: 404, is the definition there? (portcullis crd)")
        }
        kube::Error::Api(status) => format!("{what}: {} {}", status.code, status.message),
        kube::Error::Auth(_) => format!("{what}: the credential cannot be read"),
        kube::Error::SerdeError(_) | kube::Error::FromUtf8(_) => format!("{what}: the answer cannot be read"),
        _ => format!("{what}: no connection"),
    }
}

pub(super) fn watch_reason(what: &str, error: &watcher::Error) -> String {
    match error {
        watcher::Error::InitialListFailed(error)
        | watcher::Error::WatchStartFailed(error)
        | watcher::Error::WatchFailed(error) => reason(what, error),
        watcher::Error::WatchError(status) => format!("{what}: {} {}", status.code, status.message),
        watcher::Error::NoResourceVersion => format!("{what}: the answer cannot be read"),
    }
}
