use std::collections::BTreeMap;
use std::time::Duration;

use futures_util::StreamExt;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::api::Api;
use kube::runtime::watcher::{self, Event};
use kube::{Client, ResourceExt};
use portcullis_api::SlicePort;
use portcullis_sources::{Backoff, watch_reason};
use tokio::time::timeout;

use super::report::{Reporter, SourceReport};
use super::slices::servers_of;

/// The label of a slice that names its Service.
const LABEL: &str = "kubernetes.io/service-name";
/// How long a watch lives, seconds, until the server ends it and it is taken up again where it was.
const WATCH: u32 = 60;
/// After this time everything is listed again: a connection may be dead and look silent.
const SESSION: Duration = Duration::from_secs(120);

/// Follows the slices of a Service until the task ends.
pub(super) async fn follow(client: Client, namespace: String, name: String, port: SlicePort, to: Reporter) {
    let slices: Api<EndpointSlice> = Api::namespaced(client, &namespace);
    follow_in_sessions(SESSION, &slices, &name, &port, &to).await;
}

pub(super) async fn follow_in_sessions(
    length: Duration,
    slices: &Api<EndpointSlice>,
    name: &str,
    port: &SlicePort,
    to: &Reporter,
) {
    let mut backoff = Backoff::default();
    loop {
        let mut is_listed = false;
        match timeout(length, session(slices, name, port, to, &mut backoff, &mut is_listed)).await {
            Err(_) if is_listed => {}
            Err(_) => to.failed("listing endpointslices: no answer in time".to_owned()).await,
            Ok(why) => {
                to.failed(why).await;
                tokio::time::sleep(backoff.pause()).await;
            }
        }
    }
}

/// Watches to the first failure. An incomplete list is not reported.
async fn session(
    slices: &Api<EndpointSlice>,
    name: &str,
    port: &SlicePort,
    to: &Reporter,
    backoff: &mut Backoff,
    is_listed: &mut bool,
) -> String {
    let config = watcher::Config::default().labels(&format!("{LABEL}={name}")).timeout(WATCH);
    let mut events = watcher::watcher(slices.clone(), config).boxed();
    let mut known: BTreeMap<String, EndpointSlice> = BTreeMap::new();
    while let Some(event) = events.next().await {
        match event {
            Ok(Event::Init) => {
                known.clear();
                *is_listed = false;
            }
            Ok(Event::InitApply(slice) | Event::Apply(slice)) => drop(known.insert(slice.name_any(), slice)),
            Ok(Event::Delete(slice)) => drop(known.remove(&slice.name_any())),
            Ok(Event::InitDone) => {
                *is_listed = true;
                backoff.reset();
            }
            Err(error) => return watch_reason("watching endpointslices", &error),
        }
        if *is_listed {
            to.report(SourceReport::Servers(servers_of(known.values(), port))).await;
        }
    }
    "the watch ended".to_owned()
}
