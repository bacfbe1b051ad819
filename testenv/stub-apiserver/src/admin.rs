//! The admin page: records and faults over plain HTTP on a port of its own, never on the serving port.

use std::convert::Infallible;
use std::sync::Arc;

use http_body_util::{BodyExt, Limited};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, StatusCode};
use hyper_util::rt::TokioIo;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::net::TcpListener;

use crate::app::App;
use crate::status::{self, Answer};

const MAX_BODY: usize = 1 << 20;

/// Serves the page until the future is dropped.
pub(crate) async fn run(app: Arc<App>, listener: TcpListener) {
    loop {
        let Ok((tcp, _)) = listener.accept().await else { continue };
        let app = Arc::clone(&app);
        tokio::spawn(async move {
            let service = service_fn(|request| {
                let app = Arc::clone(&app);
                async move { Ok::<_, Infallible>(answer(&app, request).await) }
            });
            // A client that goes away is its own affair.
            let _ = http1::Builder::new().serve_connection(TokioIo::new(tcp), service).await;
        });
    }
}

async fn answer(app: &App, request: Request<Incoming>) -> Answer {
    let (parts, body) = request.into_parts();
    let Ok(body) = Limited::new(body, MAX_BODY).collect().await.map(|body| body.to_bytes()) else {
        return status::bad_request("the body is too long or was cut");
    };
    match (parts.method.as_str(), parts.uri.path()) {
        ("GET", "/_stub/requests") => {
            let list: Vec<Value> = app.records.all().iter().map(crate::Record::to_json).collect();
            status::json(StatusCode::OK, &json!(list))
        }
        ("DELETE", "/_stub/requests") => done(|| app.records.clear()),
        ("GET", "/_stub/counters") => status::json(StatusCode::OK, &json!(app.records.counters())),
        ("GET", "/_stub/faults") => status::json(StatusCode::OK, &json!(app.faults.all())),
        ("DELETE", "/_stub/faults") => done(|| app.faults.replace(Vec::new())),
        ("PUT", "/_stub/faults") => with_json(&body, |list| app.faults.replace(list)),
        ("POST", "/_stub/faults") => with_json(&body, |fault| app.faults.add(fault)),
        ("PUT", "/_stub/certificate") => show(app, &body),
        ("DELETE", "/_stub/connections") => done(|| app.cut()),
        _ => status::unknown_path(),
    }
}

/// The certificates of new connections, PEM.
#[derive(serde::Deserialize)]
struct Shown {
    certificate: String,
    key: String,
}

fn show(app: &App, body: &[u8]) -> Answer {
    let shown: Result<Shown, _> = serde_json::from_slice(body).map_err(|error| error.to_string());
    let shown = shown.and_then(|shown| app.show(&shown.certificate, &shown.key).map_err(|error| error.to_string()));
    shown.map_or_else(|reason| status::bad_request(&reason), |()| done(|| ()))
}

fn done(act: impl FnOnce()) -> Answer {
    act();
    status::text(StatusCode::OK, "ok")
}

fn with_json<T: DeserializeOwned>(body: &[u8], act: impl FnOnce(T)) -> Answer {
    match serde_json::from_slice(body) {
        Ok(value) => done(|| act(value)),
        Err(error) => status::bad_request(&error.to_string()),
    }
}
