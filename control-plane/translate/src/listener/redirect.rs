//! Plain HTTP at a Gateway: 308 to HTTPS for host names that are served there, and 404 for all others.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use envoy_types::pb::envoy::config::route::v3::redirect_action::{RedirectResponseCode, SchemeRewriteSpecifier};
use envoy_types::pb::envoy::config::route::v3::route_match::PathSpecifier;
use envoy_types::pb::envoy::config::route::v3::{RedirectAction, Route, RouteMatch, VirtualHost, route};
use portcullis_api::Settings;
use portcullis_attach::{HostPattern, RedirectTable};

use super::hcm;
use crate::proto::header;
use crate::route::direct_response;
use crate::status_body;

/// The connection manager of a port. `open`: the ports at which HTTPS is served now. A client that keeps redirects all the same keeps them
/// for good.
pub(super) fn manager(tables: &[&Arc<RedirectTable>], open: &BTreeSet<u16>, settings: &Settings) -> hcm::Manager {
    let mut hosts: BTreeMap<u16, BTreeSet<&HostPattern>> = BTreeMap::new();
    let mut withheld: BTreeSet<&HostPattern> = BTreeSet::new();
    let mut owned: BTreeMap<&HostPattern, &BTreeSet<HostPattern>> = BTreeMap::new();
    for table in tables {
        owned.extend(table.owned.iter().map(|(wildcard, names)| (wildcard, names.as_ref())));
        withheld.extend(&table.withheld);
        for (host, port) in &table.ports {
            if open.contains(port) {
                hosts.entry(*port).or_default().insert(host);
            } else {
                withheld.insert(host);
            }
        }
    }
    withheld.extend(owned.into_values().flatten());
    let redirected: BTreeSet<&HostPattern> = hosts.values().flatten().copied().collect();
    withheld.retain(|host| !redirected.contains(host));
    let mut all: Vec<VirtualHost> = hosts
        .iter()
        .map(|(port, hosts)| hcm::host(&format!("https-{port}"), domains(hosts), redirect(*port)))
        .collect();
    if !all.is_empty() && !withheld.is_empty() {
        all.push(hcm::host("withheld", domains(&withheld), nothing()));
    }
    if !redirected.contains(&HostPattern::Any) && (!withheld.contains(&HostPattern::Any) || all.is_empty()) {
        all.push(hcm::host("default", vec!["*".to_owned()], nothing()));
    }
    hcm::answering(all, settings)
}

fn domains(hosts: &BTreeSet<&HostPattern>) -> Vec<String> {
    hosts.iter().map(ToString::to_string).collect()
}

fn nothing() -> Route {
    let body = status_body::fixed(status_body::PLAIN_HTTP, "NotFound", 404);
    direct_response(404, body)
}

/// With the port, also 443: the one of the request is another listener's. No client is to keep it: while the owner of a name is away for a
/// moment, it leads to the route that has the name at another port. Envoy's router adds headers of the route to redirects, too.
fn redirect(port: u16) -> Route {
    let action = RedirectAction {
        port_redirect: port.into(),
        response_code: RedirectResponseCode::PermanentRedirect.into(),
        scheme_rewrite_specifier: Some(SchemeRewriteSpecifier::HttpsRedirect(true)),
        ..Default::default()
    };
    Route {
        r#match: Some(RouteMatch { path_specifier: Some(PathSpecifier::Prefix("/".to_owned())), ..Default::default() }),
        action: Some(route::Action::Redirect(action)),
        response_headers_to_add: vec![header("cache-control", "no-store")],
        ..Default::default()
    }
}
