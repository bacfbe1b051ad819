//! Exchanges a token for a session, and ends sessions.

use std::time::Instant;

use axum::extract::{Form, FromRequest, Request, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Deserialize;

use super::access::{Denied, Origin, origin, remove_cookie, set_cookie};
use super::denied::DeniedResponse;
use super::login_page::own_path;
use super::state::Console;
use super::visit::connection;

/// The form's fields.
#[derive(Default, Deserialize)]
#[serde(default)]
struct LoginForm {
    token: String,
    to: String,
}

pub(super) async fn log_in(State(console): State<Console>, request: Request) -> Response {
    let takes_tokens = console.access.takes_tokens();
    let refuse = |denied, asked: &str| DeniedResponse { denied, asked: asked.to_owned(), takes_tokens }.into_response();
    if origin(request.headers(), request.uri()) != Origin::Same {
        return refuse(Denied::OtherOrigin, "/ui/");
    }
    let (parts, body) = request.into_parts();
    let connection = connection(&parts);
    // The token of the body is read only where it could be used.
    if !takes_tokens || !console.access.is_private(&connection) {
        return refuse(if takes_tokens { Denied::Plaintext } else { Denied::Impossible }, "/ui/");
    }
    let headers = parts.headers.clone();
    let form = match Form::<LoginForm>::from_request(Request::from_parts(parts, body), &()).await {
        Ok(Form(form)) => form,
        Err(rejection) => return (rejection.status(), "the form cannot be read\n").into_response(),
    };
    let to = own_path(&form.to);
    let objects = || console.object_names();
    match console.access.log_in(form.token.trim(), &headers, &connection, objects, Instant::now()).await {
        Ok(session) => see(to, &set_cookie(&session.id, session.lifetime)),
        Err(denied) => refuse(denied, to),
    }
}

pub(super) async fn log_out(State(console): State<Console>, request: Request) -> Response {
    if origin(request.headers(), request.uri()) != Origin::Same {
        let denied = Denied::OtherOrigin;
        return DeniedResponse { denied, asked: "/ui/".to_owned(), takes_tokens: false }.into_response();
    }
    console.access.log_out(request.headers());
    see("/ui/", &remove_cookie())
}

/// Leads the browser to a page.
fn see(path: &str, cookie: &str) -> Response {
    let mut response = StatusCode::SEE_OTHER.into_response();
    let headers = [(header::LOCATION, path), (header::SET_COOKIE, cookie)];
    for (name, value) in headers {
        // Both are plain text by their making.
        if let Ok(value) = HeaderValue::from_str(value) {
            response.headers_mut().insert(name, value);
        }
    }
    response
}
