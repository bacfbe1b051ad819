use std::time::Duration;

use http_body_util::BodyExt;
use hyper::{Method, StatusCode};
use portcullis_api::{Cluster, UpstreamIdentity};
use serde_json::{Value, json};
use tokio::time::timeout;

use super::report::{CheckFailure, CheckOutcome};
use super::session::{ForwardedUser, GatewaySession};
use crate::display_text::one_line;
use crate::onboard::cluster_api::refused;
use crate::onboard::error::{ApiError, chain};

/// How long the first event of a watch may take. The watch itself ends much later, so that events which come with its end are
/// late.
const FIRST_EVENT: Duration = Duration::from_secs(if cfg!(test) { 1 } else { 5 });
/// A watch of what each cluster has, so that there is an event at once.
const WATCH: &str = "/api/v1/namespaces?watch=true&allowWatchBookmarks=true&timeoutSeconds=60";
/// No cluster has issued it.
const UNKNOWN_TOKEN: &str = "portcullis-onboard-is-no-token";
const RIGHTS: &str =
    "see the line about rights; if all are there, an admission policy or proxy of the cluster refuses it";
const BUSY: &str = "retry; if it stays, the log of kube-apiserver has the reason";

/// Whether the servers accept the gateway's credential, and as whom.
pub(super) async fn credential(session: &GatewaySession) -> CheckOutcome {
    let seen = match session.who_am_i(None).await {
        Ok(seen) => seen,
        Err(error) => return CheckFailure::new(chain(&error), refused_credential(session, &error)).into(),
    };
    match &session.identity {
        UpstreamIdentity::RequestHeader { user, .. } if *user != seen.name => {
            let reason = format!("the servers see {} and not {user}: they do not believe X-Remote-User", seen.name);
            let hint = "the certificate must be signed by the CA of --requestheader-client-ca-file, with a name of \
                        --requestheader-allowed-names, and not by the CA of --client-ca-file alone";
            CheckFailure::new(reason, hint).into()
        }
        _ if seen.name == "system:anonymous" => {
            let hint = "the servers do not ask for the certificate: is a proxy that ends TLS in between?";
            CheckFailure::new("the servers see system:anonymous", hint).into()
        }
        _ => CheckOutcome::Good(seen.name),
    }
}

fn refused_credential(session: &GatewaySession, error: &ApiError) -> &'static str {
    match (&session.identity, error) {
        (UpstreamIdentity::RequestHeader { .. }, ApiError::Refused { code: 401, .. }) => {
            "the certificate must be valid, signed by the CA of --requestheader-client-ca-file, and its common name among \
             --requestheader-allowed-names"
        }
        (UpstreamIdentity::Impersonate, ApiError::Refused { code: 401, .. }) => {
            "it is expired, revoked, its service account is gone, or it is of another cluster: `portcullis onboard --renew` \
             gets a new one"
        }
        (_, ApiError::Refused { code: 403, .. }) => {
            "every authenticated user may ask who it is (system:basic-user): is the binding gone?"
        }
        (_, ApiError::Refused { code: 404, .. }) => "SelfSubjectReview needs Kubernetes 1.28 or newer",
        _ => BUSY,
    }
}

/// The path by which the gateway finds out whether a server is healthy.
pub(super) async fn health(session: &GatewaySession, cluster: &Cluster) -> CheckOutcome {
    let path = &cluster.health_check.path;
    match session.ask(Method::GET, path, None, None).await {
        Ok((status, _)) if status.is_success() => CheckOutcome::Good(path.clone()),
        Ok((status @ (StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN), body)) => {
            failed(session, &refused(status, &body), RIGHTS)
        }
        Ok((status, body)) => {
            let first = String::from_utf8_lossy(&body);
            let reason = format!("{path}: {status} {}", one_line(first.lines().next().unwrap_or_default()));
            CheckFailure::new(reason, "the server is not ready: /readyz?verbose has the reason; retry when it is")
                .into()
        }
        Err(error) => failed(session, &error, BUSY),
    }
}

/// Whether the servers answer whose a token is.
pub(super) async fn token_review(session: &GatewaySession) -> CheckOutcome {
    if let UpstreamIdentity::RequestHeader { token_review: false, .. } = session.identity {
        return CheckOutcome::Skipped("the object has tokenReview: false".to_owned());
    }
    let review = json!({
        "apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": UNKNOWN_TOKEN},
    });
    let path = "/apis/authentication.k8s.io/v1/tokenreviews";
    match session.object(Method::POST, path, Some(&review), None).await {
        Err(error) => failed(session, &error, RIGHTS),
        Ok(answer) if answer.pointer("/status/authenticated") == Some(&Value::Bool(true)) => {
            let hint = "the servers take any token for a user: correct their authentication before anything else";
            CheckFailure::new("an invented token was accepted", hint).into()
        }
        Ok(answer) if answer.get("status").is_some() => CheckOutcome::Good("an invented token is none".to_owned()),
        Ok(_) => CheckFailure::new("the answer has no status", BUSY).into(),
    }
}

/// Whether the servers believe the gateway who sends a request.
pub(super) async fn forwarding(session: &GatewaySession, name: &str) -> CheckOutcome {
    let user = ForwardedUser { name: name.to_owned(), groups: Vec::new() };
    match session.who_am_i(Some(&user)).await {
        Ok(seen) if seen.name == name => CheckOutcome::Good(format!("a request of {name} is theirs")),
        Ok(seen) => {
            let hint = "something between this machine and the servers removes the headers of the user";
            CheckFailure::new(format!("the servers see {} and not {name}", seen.name), hint).into()
        }
        Err(ApiError::Refused { code: 403, message }) => {
            let hint = "the gateway's user lacks the right to impersonate: `portcullis rbac -f` prints it; if resourceNames \
                        narrow it to some users, name one of them with --probe-user";
            CheckFailure::new(message, hint).into()
        }
        Err(error) => failed(session, &error, BUSY),
    }
}

/// Whether events of a watch arrive when they happen.
pub(super) async fn streaming(session: &GatewaySession, user: &ForwardedUser) -> CheckOutcome {
    let mut answer = match session.open_stream(WATCH, user).await {
        Ok(answer) => answer,
        Err(error) => return failed(session, &error, BUSY),
    };
    let status = answer.status();
    if status == StatusCode::FORBIDDEN {
        return CheckOutcome::Skipped(format!("{} may not watch namespaces", user.name));
    }
    if !status.is_success() {
        return failed(session, &refused(status, &[]), BUSY);
    }
    let hint = "something between this machine and the servers collects answers before it passes them on (buffering): watches \
                and logs -f need a proxy without it";
    let mut line = Vec::new();
    let first = async {
        while !line.contains(&b'\n') {
            let frame = answer.body_mut().frame().await?.ok()?;
            line.extend(frame.into_data().ok()?);
        }
        Some(())
    };
    match timeout(FIRST_EVENT, first).await {
        Err(_) => CheckFailure::new(format!("a watch had no event within {FIRST_EVENT:?}"), hint).into(),
        Ok(None) => CheckFailure::new("a watch ended before its first event", BUSY).into(),
        Ok(Some(())) => event(&line, user),
    }
}

fn event(bytes: &[u8], user: &ForwardedUser) -> CheckOutcome {
    let line = bytes.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let event: Value = serde_json::from_slice(line).unwrap_or_default();
    match event.get("type").and_then(Value::as_str) {
        Some(kind @ ("ADDED" | "MODIFIED" | "DELETED" | "BOOKMARK")) => {
            CheckOutcome::Good(format!("a watch of {} has an event ({kind})", user.name))
        }
        _ => CheckFailure::new("the first event of a watch is none", BUSY).into(),
    }
}

/// A failure with this hint, unless the credential itself is not accepted any more: servers believe a token for some seconds.
pub(super) fn failed(session: &GatewaySession, error: &ApiError, hint: &str) -> CheckOutcome {
    let hint = match error {
        ApiError::Refused { code: 401, .. } => refused_credential(session, error),
        _ => hint,
    };
    CheckFailure::new(chain(error), hint).into()
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpListener;

    use kube::Config;

    use super::*;
    use crate::runtime::{Threads, runtime};

    /// The outcome of a watch at a server that answers with these bytes, and then ends the answer or does not.
    fn watched(answer: &'static str, ends: bool) -> CheckOutcome {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap()).parse().unwrap();
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut head = Vec::new();
            while !head.ends_with(b"\r\n\r\n") {
                let mut byte = [0];
                stream.read_exact(&mut byte).unwrap();
                head.extend(byte);
            }
            stream.write_all(answer.as_bytes()).unwrap();
            // Until the client goes.
            while !ends && stream.read(&mut [0]).is_ok_and(|read| read > 0) {}
            String::from_utf8(head).unwrap()
        });
        let user = ForwardedUser { name: "alice".to_owned(), groups: vec!["dev".to_owned()] };
        let outcome = runtime(Threads::Current).unwrap().block_on(async {
            let session = GatewaySession::of_config(Config::new(url)).unwrap();
            streaming(&session, &user).await
        });
        let head = server.join().unwrap().to_ascii_lowercase();
        assert!(head.contains("impersonate-user: alice") && head.contains("impersonate-group: dev"), "{head}");
        outcome
    }

    #[test]
    fn watch_is_judged_by_its_first_event() {
        const HEAD: &str = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";
        let failure = |outcome| match outcome {
            CheckOutcome::Failed { reason, hint } => (reason, hint),
            other => panic!("{other:?}"),
        };
        let good = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n11\r\n{\"type\":\"ADDED\"}\n\r\n";
        assert!(watched(good, false).is_good());
        let (reason, hint) = failure(watched(HEAD, false));
        assert!(reason.contains("no event within") && hint.contains("buffering"), "{reason} {hint}");
        let ended = failure(watched("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n", true));
        assert!(ended.0.contains("ended before"), "{ended:?}");
        let error = "HTTP/1.1 200 OK\r\ncontent-length: 17\r\n\r\n{\"type\":\"ERROR\"}\n";
        assert!(failure(watched(error, true)).0.contains("is none"));
        let forbidden = watched("HTTP/1.1 403 Forbidden\r\ncontent-length: 0\r\n\r\n", true);
        assert!(matches!(forbidden, CheckOutcome::Skipped(_)), "{forbidden:?}");
    }
}
