//! The console: pages for people under `/ui`, and the same as JSON under `/ui/api` and `/status`.
//!
//! | step | module |
//! |---|---|
//! | find out who reads, and what that reader may see | `access`, `visit`, `fleet_part` |
//! | answer a request | `pages`, `api`, `events`, `login`, `question` |
//! | write a page | `layout`, `fleet_page`, `instances_table`, `objects_page`, `cluster_page`, `gateway_traffic`, `explain_page`, `login_page` |
//! | escape text, and write numbers and pictures | `html`, `figures`, `sparkline` |
//!
//! Pages are whole without JavaScript. The script fetches the same page again after a change and replaces the parts that
//! differ, so that nothing is written twice.

mod access;
mod api;
mod assets;
mod cluster_page;
mod data;
mod denied;
mod events;
mod explain_page;
mod figures;
mod fleet_page;
mod fleet_part;
mod gateway_traffic;
mod html;
mod instances_table;
mod layout;
mod login;
mod login_page;
mod objects_page;
mod pages;
mod question;
mod sparkline;
mod state;
mod visit;

#[cfg(test)]
mod tests;

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::response::Redirect;
use axum::routing::{get, post};

pub(crate) use access::{KubernetesReviewer, LoginPolicy};
pub(super) use data::LiveData;
pub(super) use state::{Console, LoginSettings};

/// The longest body of a request.
pub(super) const MAX_BODY: usize = 65_536;

/// The routes of the console and `/status`. A method without a route is answered with 405.
pub(super) fn router(console: Console) -> Router {
    let first = || get(async || Redirect::temporary("/ui/"));
    Router::new()
        .route("/", first())
        .route("/ui", first())
        .route("/ui/", get(pages::fleet))
        .route("/ui/clusters/{name}", get(pages::cluster))
        .route("/ui/explain", get(pages::explain_form).post(pages::explain))
        .route("/ui/login", first().post(login::log_in))
        .route("/ui/logout", post(login::log_out))
        .route("/ui/api/fleet", get(api::fleet))
        .route("/ui/api/clusters/{name}", get(api::cluster))
        .route("/ui/api/explain", post(api::explain))
        .route("/ui/api/events", get(events::events))
        .route("/ui/console.js", get(assets::script))
        .route("/ui/console.css", get(assets::style))
        .route("/ui/icon.svg", get(assets::icon))
        .route("/status", get(api::status))
        .layer(DefaultBodyLimit::max(MAX_BODY))
        .with_state(console)
}
