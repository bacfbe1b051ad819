//! The way of one request: noted, struck by faults, authenticated, impersonated, authorised, answered.

use std::sync::Arc;

use bytes::Bytes;
use http_body_util::{BodyExt, Limited};
use hyper::body::Incoming;
use hyper::header::{HeaderMap, HeaderName};
use hyper::http::request::Parts;
use hyper::upgrade::OnUpgrade;
use hyper::{Request, Response, StatusCode, Version};
use serde_json::json;

use crate::app::App;
use crate::faults::Action;
use crate::load::Running;
use crate::peer::Peer;
use crate::resources::Resource;
use crate::route::{Route, Target, route};
use crate::status::{self, Answer, full};
use crate::user::User;
use crate::{authenticate, authorize, discovery, impersonate, objects, protobuf, reviews, streams, upgrade};

/// kube-apiserver's own limit of a body, in bytes.
const MAX_BODY: usize = 3 << 20;

/// An error here resets the stream (or closes an HTTP/1.1 connection) without an answer.
pub(crate) type Outcome = Result<Answer, Box<dyn std::error::Error + Send + Sync>>;

/// Answers one request.
pub(crate) async fn handle(app: Arc<App>, peer: Arc<Peer>, request: Request<Incoming>) -> Outcome {
    let id = app.records.add(peer.id, peer.common_name.clone(), &request);
    let uri = request.uri().path_and_query().map(ToString::to_string).unwrap_or_default();
    let running = app.load.enter(request.uri().path());
    // Watched before the faults are read, so that no release is missed.
    let mut released = app.faults.watch();
    let struck = app.faults.strike(request.method().as_str(), &uri);
    if !struck.delay.is_zero() {
        tokio::time::sleep(struck.delay).await;
    }
    if struck.is_held {
        released.changed().await?;
    }
    let (mut parts, body) = request.into_parts();
    let upgraded = parts.extensions.remove::<OnUpgrade>();
    let upgrades = upgrade::wants_upgrade(&parts.headers).is_some();
    let (body, trailers) = if upgrades { Default::default() } else { read(body).await? };
    app.records.set_body(id, &body, &trailers);
    let body = protobuf::to_json(&body).map_or(body, |value| Bytes::from(value.to_string()));
    let call = Call { app: &app, peer: &peer, id, uri, parts, body, running: running.clone() };
    let mut answer = match call.fault(struck.action).await? {
        Some(answer) => answer,
        None => call.answer(upgraded),
    };
    if let Ok(name) = app.options.name.parse() {
        answer.headers_mut().insert(HeaderName::from_static("x-stub-name"), name);
    }
    app.records.update(id, |record| record.status = Some(answer.status().as_u16()));
    drop(call);
    Ok(running.until_sent(answer))
}

struct Call<'a> {
    app: &'a App,
    peer: &'a Peer,
    id: u64,
    /// Path with query.
    uri: String,
    parts: Parts,
    body: Bytes,
    running: Running,
}

impl Call<'_> {
    async fn fault(&self, action: Option<Action>) -> Result<Option<Answer>, Box<dyn std::error::Error + Send + Sync>> {
        match action {
            None | Some(Action::Delay { .. } | Action::Hold) => Ok(None),
            Some(Action::Respond { status, headers, body }) => custom(status, &headers, body).map(Some),
            Some(Action::Large { mebibytes }) => Ok(Some(streams::large(mebibytes))),
            Some(Action::Unauthorized) => Ok(Some(self.unauthorized())),
            Some(Action::ResetStream { code }) => Err(h2::Error::from(h2::Reason::from(code)).into()),
            Some(Action::CloseConnection) => {
                self.peer.abort.notify_one();
                std::future::pending().await
            }
            Some(Action::Goaway) => {
                self.peer.goaway.notify_one();
                Ok(None)
            }
            Some(Action::Hang) => std::future::pending().await,
        }
    }

    fn answer(&self, upgraded: Option<OnUpgrade>) -> Answer {
        match self.user() {
            Ok(user) => self.dispatch(&user, upgraded),
            Err(refusal) => *refusal,
        }
    }

    /// As whom the request is handled, or the answer that ends it.
    fn user(&self) -> Result<User, Box<Answer>> {
        let (path, headers) = (self.parts.uri.path(), &self.parts.headers);
        let sender = authenticate::sender(self.app, &self.peer.chain, headers, path)
            .map_err(|authenticate::Unauthorized| Box::new(self.unauthorized()))?;
        if sender.is_anonymous() {
            self.close_after();
        }
        self.app.records.update(self.id, |record| record.authenticated = Some(sender.clone()));
        let effective = impersonate::effective(&self.app.options, &sender, headers)?;
        self.app.records.update(self.id, |record| record.effective = Some(effective.clone()));
        Ok(effective)
    }

    fn dispatch(&self, user: &User, upgraded: Option<OnUpgrade>) -> Answer {
        let path = self.parts.uri.path();
        let route = route(path);
        if let Err(refusal) = authorize::check(&self.app.options, user, self.parts.method.as_str(), path, &route) {
            return *refusal;
        }
        match route {
            Route::Health => status::text(StatusCode::OK, "ok"),
            Route::Version => status::json(StatusCode::OK, &version(&self.app.options.name)),
            Route::CoreVersions => status::json(StatusCode::OK, &discovery::core_versions()),
            Route::Groups => status::json(StatusCode::OK, &discovery::groups()),
            Route::Group(name) => found(discovery::group(&name)),
            Route::Resources(group, version) => found(discovery::resources(&group, &version)),
            Route::Resource(target) => self.resource(user, &target, upgraded),
            Route::Unknown => status::unknown_path(),
        }
    }

    fn resource(&self, user: &User, target: &Target, upgraded: Option<OnUpgrade>) -> Answer {
        let method = self.parts.method.as_str();
        match target.subresource.as_str() {
            "exec" | "attach" | "portforward" => {
                return upgrade::echo(&self.parts.headers, upgraded, self.running.clone());
            }
            "log" => return streams::log(&self.uri),
            "proxy" if upgrade::wants_upgrade(&self.parts.headers).is_some() => {
                return upgrade::echo(&self.parts.headers, upgraded, self.running.clone());
            }
            "proxy" => return streams::proxied(method, &self.uri, &self.body),
            _ => {}
        }
        if let Some(answer) = reviews::answer(self.app, user, target, method, &self.body) {
            return answer;
        }
        let Some(served) = Resource::find(&target.group, &target.version, &target.resource) else {
            return status::unknown_path();
        };
        let (uri, headers, body) = (self.uri.as_str(), &self.parts.headers, &*self.body);
        objects::Request { served, target, method, uri, headers, body }.answer(&self.app.store)
    }

    fn unauthorized(&self) -> Answer {
        self.close_after();
        status::unauthorized()
    }

    fn close_after(&self) {
        if self.app.options.close_after_unauthenticated && self.parts.version == Version::HTTP_2 {
            self.peer.goaway.notify_one();
        }
    }
}

/// The body and its trailers.
async fn read(body: Incoming) -> Result<(Bytes, HeaderMap), Box<dyn std::error::Error + Send + Sync>> {
    let read = Limited::new(body, MAX_BODY).collect().await?;
    let trailers = read.trailers().cloned().unwrap_or_default();
    Ok((read.to_bytes(), trailers))
}

fn custom(status: u16, headers: &[(String, String)], body: String) -> Outcome {
    let mut response = Response::builder().status(status);
    for (name, value) in headers {
        response = response.header(name, value);
    }
    Ok(response.body(full(body))?)
}

fn found(value: Option<serde_json::Value>) -> Answer {
    value.map_or_else(status::unknown_path, |value| status::json(StatusCode::OK, &value))
}

fn version(name: &str) -> serde_json::Value {
    json!({
        "major": "1", "minor": "36", "gitVersion": format!("v1.36.3-{name}"), "gitCommit": "", "gitTreeState": "clean",
        "buildDate": "1970-01-01T00:00:00Z", "goVersion": "none", "compiler": "none", "platform": "linux/amd64",
    })
}
