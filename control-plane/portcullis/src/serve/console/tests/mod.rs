mod bounds;
mod corpus;
mod instances;
mod logins;
mod views;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::http::{HeaderMap, Request, StatusCode};
use axum::middleware;
use futures_util::future::BoxFuture;
use hyper::service::Service;
use hyper_util::service::TowerToHyperService;
use portcullis_core::identity::UserInfo;
use portcullis_sources::ObjectSet;
use serde_json::Value;
use tokio::sync::watch;

use super::access::{LoginPolicy, ReviewFailed, Reviewer, Right};
use super::data::ConsoleData;
use super::state::{Console, LoginSettings};
use crate::listen::Connection;
use crate::serve::fleet::view::{ClusterView, FleetView};
use crate::serve::status::StatusBody;
use crate::serve::turns::{take_turns, turns};

/// Data that do not change by themselves.
pub(super) struct FixedData {
    pub(super) fleet: Arc<FleetView>,
    pub(super) clusters: BTreeMap<String, ClusterView>,
    pub(super) status: Arc<StatusBody>,
    pub(super) objects: Arc<ObjectSet>,
    pub(super) changes: watch::Sender<u64>,
    /// The number of views of the fleet that were asked for.
    pub(super) views: Arc<AtomicUsize>,
}

impl ConsoleData for FixedData {
    fn fleet(&self) -> Arc<FleetView> {
        self.views.fetch_add(1, Ordering::Relaxed);
        Arc::clone(&self.fleet)
    }

    fn cluster(&self, name: &str) -> Option<ClusterView> {
        self.clusters.get(name).cloned()
    }

    fn changed(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    fn status(&self) -> Arc<StatusBody> {
        Arc::clone(&self.status)
    }

    fn objects(&self) -> Arc<ObjectSet> {
        Arc::clone(&self.objects)
    }
}

/// A Kubernetes API: `root` may list, any other user may get the objects that begin with the user's name. Tokens are `NAME-token`.
#[derive(Default)]
pub(super) struct FakeApi {
    pub(super) revoked: Mutex<Vec<String>>,
    /// Objects to which the rights are withdrawn.
    pub(super) withdrawn: Mutex<Vec<String>>,
    pub(super) is_away: Mutex<bool>,
    pub(super) token_reviews: AtomicUsize,
    pub(super) access_reviews: AtomicUsize,
}

impl Reviewer for FakeApi {
    fn user<'a>(&'a self, token: &'a str) -> BoxFuture<'a, Result<Option<UserInfo>, ReviewFailed>> {
        self.token_reviews.fetch_add(1, Ordering::Relaxed);
        let is_revoked = self.revoked.lock().unwrap().iter().any(|one| one == token);
        let name = token.strip_suffix("-token").filter(|_| !is_revoked).map(str::to_owned);
        let user = name.map(|name| UserInfo { name, ..UserInfo::default() });
        let answer = if *self.is_away.lock().unwrap() { Err(ReviewFailed) } else { Ok(user) };
        Box::pin(async { answer })
    }

    fn allows<'a>(&'a self, user: &'a UserInfo, right: Right<'a>) -> BoxFuture<'a, Result<bool, ReviewFailed>> {
        self.access_reviews.fetch_add(1, Ordering::Relaxed);
        let allowed = match right {
            Right::List => user.name == "root",
            Right::Get(_, name) => {
                let is_withdrawn = self.withdrawn.lock().unwrap().iter().any(|one| one == name);
                user.name == "root" || (name.starts_with(&user.name) && !is_withdrawn)
            }
        };
        let answer = if *self.is_away.lock().unwrap() { Err(ReviewFailed) } else { Ok(allowed) };
        Box::pin(async move { answer })
    }
}

/// The console under test.
pub(super) struct Site {
    router: Router,
    pub(super) console: Console,
}

/// A response.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) status: StatusCode,
    pub(super) headers: HeaderMap,
    pub(super) text: String,
}

impl Answer {
    pub(super) fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap()
    }

    /// The cookie that it sets, as a browser sends it.
    pub(super) fn cookie(&self) -> String {
        let set = self.headers.get("set-cookie").unwrap().to_str().unwrap();
        set.split(';').next().unwrap().to_owned()
    }
}

/// The address of a client elsewhere.
pub(super) const FAR: &str = "192.0.2.1:1";
/// The address of a client on this machine.
pub(super) const NEAR: &str = "127.0.0.1:1";

impl Site {
    pub(super) fn new(data: FixedData, policy: LoginPolicy) -> Self {
        Self::with(data, policy, false)
    }

    pub(super) fn with(data: FixedData, policy: LoginPolicy, behind_tls_proxy: bool) -> Self {
        let login = LoginSettings { policy, behind_tls_proxy, review_interval: Duration::from_secs(60) };
        let console = Console::new(data, &login);
        let turns = middleware::from_fn_with_state(turns(), take_turns);
        Self { router: super::router(console.clone()).layer(turns), console }
    }

    pub(super) async fn send(
        &self,
        from: &str,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> Answer {
        let mut request = Request::builder().method(method).uri(path).header("host", "portcullis.test");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let mut request = request.body(Body::from(body.to_owned())).unwrap();
        request.extensions_mut().insert(Connection::plain(from.parse::<SocketAddr>().unwrap()));
        let response = TowerToHyperService::new(self.router.clone()).call(request).await.unwrap();
        let (parts, body) = response.into_parts();
        let text = to_bytes(body, usize::MAX).await.unwrap();
        Answer { status: parts.status, headers: parts.headers, text: String::from_utf8(text.to_vec()).unwrap() }
    }

    pub(super) async fn get(&self, from: &str, path: &str, headers: &[(&str, &str)]) -> Answer {
        self.send(from, "GET", path, headers, "").await
    }

    /// As a browser posts a form of its own page.
    pub(super) async fn post(&self, from: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Answer {
        let own = [("origin", "http://portcullis.test"), ("content-type", "application/x-www-form-urlencoded")];
        self.send(from, "POST", path, &[headers, &own].concat(), body).await
    }
}
