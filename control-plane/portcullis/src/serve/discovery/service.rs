use std::time::Duration;

use futures_util::StreamExt;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::Client;
use kube::api::Api;
use kube::runtime::watcher::{self, Event};
use portcullis_api::SlicePort;
use portcullis_sources::{Backoff, watch_reason};
use tokio::time::timeout;

use super::known_slices::KnownSlices;
use super::report::{Reporter, SourceReport};

/// The label of a slice that names its Service.
const LABEL: &str = "kubernetes.io/service-name";
/// How long a watch lives, seconds, until the server ends it and it is taken up again where it was.
const WATCH: u32 = 60;
/// After this time everything is listed again: a connection may be dead and look silent.
const SESSION: Duration = Duration::from_secs(120);

/// A Service whose slices are followed.
pub(super) struct FollowedService {
    pub(super) name: String,
    /// Its UID, where it is known.
    pub(super) uid: Option<String>,
    /// The ports, each with those who want to know of it.
    pub(super) ports: Vec<(SlicePort, Reporter)>,
}

impl FollowedService {
    async fn report(&self, known: &KnownSlices) {
        for (port, to) in &self.ports {
            to.report(SourceReport::Servers(known.servers(port))).await;
        }
    }

    async fn failed(&self, why: &str) {
        for (_, to) in &self.ports {
            to.failed(why.to_owned()).await;
        }
    }
}

/// Follows the slices of a Service until the task ends.
pub(super) async fn follow(client: Client, namespace: String, service: FollowedService) {
    let slices: Api<EndpointSlice> = Api::namespaced(client, &namespace);
    follow_in_sessions(SESSION, &slices, &service).await;
}

pub(super) async fn follow_in_sessions(length: Duration, slices: &Api<EndpointSlice>, service: &FollowedService) {
    let mut backoff = Backoff::default();
    loop {
        let mut is_listed = false;
        match timeout(length, session(slices, service, &mut backoff, &mut is_listed)).await {
            Err(_) if is_listed => {}
            Err(_) => service.failed("listing endpointslices: no answer in time").await,
            Ok(why) => {
                service.failed(&why).await;
                tokio::time::sleep(backoff.pause()).await;
            }
        }
    }
}

/// Watches to the first failure. An incomplete list is not reported.
async fn session(
    slices: &Api<EndpointSlice>,
    service: &FollowedService,
    backoff: &mut Backoff,
    is_listed: &mut bool,
) -> String {
    let config = watcher::Config::default().labels(&format!("{LABEL}={}", service.name)).timeout(WATCH);
    let mut events = watcher::watcher(slices.clone(), config).boxed();
    let mut known = KnownSlices::of(service.uid.clone());
    while let Some(event) = events.next().await {
        match event {
            Ok(Event::Init) => {
                known.clear();
                *is_listed = false;
            }
            Ok(Event::InitApply(slice) | Event::Apply(slice)) => known.insert(slice),
            Ok(Event::Delete(slice)) => known.remove(&slice),
            Ok(Event::InitDone) => {
                *is_listed = true;
                backoff.reset();
            }
            Err(error) => return watch_reason("watching endpointslices", &error),
        }
        if *is_listed {
            service.report(&known).await;
        }
    }
    "the watch ended".to_owned()
}
