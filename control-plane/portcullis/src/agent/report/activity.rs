//! Reports of activity to one control plane: how many requests each cluster got, and what became of them.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::{Duration, Instant};

use portcullis_filter_config::activity::Activity;
use portcullis_xds::ReportClient;
use tokio::sync::watch;
use tokio::time::sleep;
use tonic::Status;
use tonic::transport::Channel;

use super::SHARE;
use super::in_flight::RequestsByServer;
use super::stream_end::{ReportStreamEnd, ReportingEnvoy};
use crate::activity_report::ActivityPage;
use crate::agent::activity::ActivitySource;
use crate::agent::admin::Admin;

/// The time between two pages, at least and at most. Control planes forget a report after 30 seconds.
const INTERVAL: (Duration, Duration) = (Duration::from_secs(5), Duration::from_secs(10));

/// The newest page.
pub(super) type Page = Option<Arc<ActivityPage>>;

/// Reads pages until the runtime ends.
pub(super) async fn read(source: ActivitySource, admin: Admin, pages: watch::Sender<Page>) {
    let (mut page, mut in_flight) = (ActivityPage::default(), RequestsByServer::default());
    loop {
        let begin = Instant::now();
        match source.fetch().await {
            Ok(activity) => {
                let mut activity = Arc::unwrap_or_clone(activity);
                add_in_flight(admin, &mut in_flight, &mut activity).await;
                page = page.succeeded_by(&activity);
                pages.send_replace(Some(Arc::new(page.clone())));
            }
            // The last page grows old, which is what it is.
            Err(error) => tracing::debug!(%error, "the filter does not report its activity"),
        }
        let (least, most) = INTERVAL;
        sleep(begin.elapsed().saturating_mul(SHARE).clamp(least, most)).await;
    }
}

/// Adds the requests in flight at each server. A page that Envoy does not give leaves them as they were.
async fn add_in_flight(admin: Admin, in_flight: &mut RequestsByServer, activity: &mut Activity) {
    if let Some((clusters, path)) = in_flight.ask(activity) {
        let read = match admin.get(&path).await {
            Ok(page) => in_flight.take(clusters, &page).map_err(|error| error.to_string()),
            Err(error) => Err(error.to_string()),
        };
        if let Err(error) = read {
            tracing::debug!(error, "the requests in flight cannot be read from Envoy");
        }
    }
    in_flight.add_to(activity);
}

/// Sends every page on a connection for as long as it is polled. A failure concerns these reports alone. `last` is why they failed last,
/// on this connection or one before it.
pub(super) async fn report_on(
    channel: Channel,
    envoy: &ReportingEnvoy,
    pages: watch::Receiver<Page>,
    peer: &str,
    last: &mut String,
) -> Infallible {
    let client = ReportClient::new(channel);
    let mut pages = pages;
    loop {
        let Err(status) = send_pages(&client, envoy, &mut pages).await;
        let ReportStreamEnd { why, pause } = ReportStreamEnd::of(&status, envoy);
        // Once, and not at every try.
        if why != *last {
            tracing::warn!(control_plane = peer, error = why, "activity is not reported");
            *last = why;
        }
        sleep(pause).await;
    }
}

async fn send_pages(
    client: &ReportClient,
    envoy: &ReportingEnvoy,
    pages: &mut watch::Receiver<Page>,
) -> Result<Infallible, Status> {
    // A gateway without pages has nothing to report.
    if pages.wait_for(Option::is_some).await.is_err() {
        std::future::pending::<()>().await;
    }
    let mut stream = client.open(&envoy.node, envoy.gateway.as_deref()).await?;
    let mut since = None;
    loop {
        let page = pages.borrow_and_update().clone();
        if let Some(page) = page {
            for part in page.parts(since) {
                stream.send("", part).await?;
            }
            since = Some(page.since());
        }
        if pages.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}
