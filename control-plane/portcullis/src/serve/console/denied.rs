use axum::Json;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{Html, IntoResponse, Response};
use serde_json::json;

use super::access::Denied;
use super::layout::{ConsolePage, Frame, page};
use super::login_page;

/// Seconds after which a client may try again.
const RETRY_AFTER: &str = "5";

/// A refusal in the form of the page that was asked for.
#[derive(Debug)]
pub(super) struct DeniedResponse {
    pub(super) denied: Denied,
    /// Path and query of the request.
    pub(super) asked: String,
    /// Whether a token could be posted.
    pub(super) takes_tokens: bool,
}

impl IntoResponse for DeniedResponse {
    fn into_response(self) -> Response {
        let status = status(self.denied);
        let mut response = if self.asked.starts_with("/ui/api/") || self.asked.starts_with("/status") {
            let message = login_page::message(self.denied);
            (status, Json(json!({"code": status.as_u16(), "message": message}))).into_response()
        } else {
            (status, Html(self.page(status))).into_response()
        };
        let headers = response.headers_mut();
        if status == StatusCode::UNAUTHORIZED {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer realm=\"portcullis\""));
        }
        if matches!(status, StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE) {
            headers.insert(header::RETRY_AFTER, HeaderValue::from_static(RETRY_AFTER));
        }
        response
    }
}

impl DeniedResponse {
    fn page(&self, status: StatusCode) -> String {
        let asks = self.takes_tokens && matches!(status.as_u16(), 401 | 429 | 503);
        let title = if asks { "Log in" } else { "Not shown" };
        page(&Frame { title, place: ConsolePage::Login, reader: None, events: None }, |html| {
            if asks {
                login_page::form(html, self.denied, &self.asked);
            } else {
                login_page::refusal(html, self.denied);
            }
        })
    }
}

const fn status(denied: Denied) -> StatusCode {
    match denied {
        Denied::LoginRequired | Denied::BadCredential => StatusCode::UNAUTHORIZED,
        Denied::Plaintext | Denied::Impossible | Denied::Forbidden | Denied::OtherOrigin => StatusCode::FORBIDDEN,
        Denied::TooMany => StatusCode::TOO_MANY_REQUESTS,
        Denied::Full | Denied::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
    }
}
