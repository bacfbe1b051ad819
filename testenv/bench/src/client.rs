//! The load: what kubectl sends, over and over.

use std::sync::atomic::{AtomicU64, Ordering};

use portcullis_harness::client::{H2Client, Outgoing, Response};

use crate::case::Case;
use crate::error::BenchError;
use crate::verified;

/// The token that the stub knows: as long as a service account's.
pub(crate) const TOKEN_LEN: usize = 900;

/// Different pods that are asked for in turn.
const PODS: u32 = 64;

/// Sends requests one after the other, each answered as the case says.
pub(crate) fn send(client: &H2Client, case: Case, token: &str, count: u32) -> Result<(), BenchError> {
    for number in 0..count {
        let bearer = bearer(case, token)?;
        expect(&client.get(&path(number), &headers(case, &bearer))?, case)?;
    }
    Ok(())
}

/// As [`send`], with up to `at_once` under way.
pub(crate) fn burst(client: &H2Client, case: Case, token: &str, count: u32, at_once: usize) -> Result<(), BenchError> {
    let request = |number: u32| {
        let bearer = bearer(case, token)?;
        Ok(Outgoing::get(&path(number), &headers(case, &bearer)))
    };
    let requests = (0..count).map(request).collect::<Result<_, BenchError>>()?;
    client.burst(requests, at_once).into_iter().try_for_each(|response| expect(&response?, case))
}

/// The `Authorization` of the next request.
fn bearer(case: Case, token: &str) -> Result<String, BenchError> {
    static FRESH: AtomicU64 = AtomicU64::new(0);
    Ok(match case {
        Case::Uncached => format!("Bearer {token}{:08}", FRESH.fetch_add(1, Ordering::Relaxed)),
        Case::Verified => format!("Bearer {}", verified::token()?),
        _ => format!("Bearer {token}"),
    })
}

/// A path of a pod.
pub(crate) fn path(number: u32) -> String {
    format!("/api/v1/namespaces/default/pods/web-7d9c6b5f4-{:05}", number % PODS)
}

/// The headers of a request, of which `bearer` is one where the case has a token.
pub(crate) fn headers(case: Case, bearer: &str) -> Vec<(&'static str, &str)> {
    let mut headers = vec![
        ("accept", "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"),
        ("accept-encoding", "gzip"),
        ("user-agent", "kubectl/v1.36.3 (linux/amd64) kubernetes/1234567"),
        ("kubectl-command", "kubectl get"),
        ("kubectl-session", "5f0c1d2e-3a4b-4c5d-8e6f-708192a3b4c5"),
    ];
    if case.uses_token() {
        headers.push(("authorization", bearer));
    }
    if case == Case::Impersonated {
        headers.extend([("impersonate-user", "bob"), ("impersonate-group", "developers")]);
    }
    headers
}

fn expect(response: &Response, case: Case) -> Result<(), BenchError> {
    let (found, wanted) = (response.status, case.status());
    if found == wanted { Ok(()) } else { Err(BenchError::Answer { found, wanted, body: response.text() }) }
}
