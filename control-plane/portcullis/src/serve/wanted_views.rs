//! The views for Envoys with another build of the filter than the module. Each is translated a second time, and only while an Envoy has a
//! stream of it, or had one some minutes ago.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use portcullis_translate::FilterBuild;
use tokio::sync::watch;

use super::instance_views::{instance_of_view, instance_view, view_for};

/// How long a view is wanted after its last stream: an Envoy that connects again finds it as it was.
pub(crate) const GRACE: Duration = Duration::from_secs(300);

/// The view of Envoys with a build of the filter, of an instance or of none.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct WantedView {
    pub(crate) filter: FilterBuild,
    pub(crate) instance: Option<String>,
}

/// The views that are wanted.
#[derive(Clone, Debug, Default)]
pub(crate) struct WantedViews(BTreeMap<WantedView, ViewStreams>);

/// The streams of a view.
#[derive(Clone, Debug, Default)]
struct ViewStreams {
    open: usize,
    /// When the last one ended.
    ended: Option<Instant>,
}

/// Keeps a view wanted until it is dropped, and for a while.
pub(crate) struct WantedGuard {
    wanted: watch::Sender<WantedViews>,
    view: WantedView,
}

impl WantedView {
    /// The view of that name; `None` if Envoys of it have the module, or belong to a Gateway.
    pub(crate) fn of(name: &str) -> Option<Self> {
        let (_, build) = name.rsplit_once('/').unwrap_or(("", name));
        let filter = FilterBuild::from_metadata(Some(build)).ok().filter(|build| *build != FilterBuild::default())?;
        let view = Self { filter, instance: instance_of_view(name).map(str::to_owned) };
        // An instance or a Gateway may be called as a build is.
        (view.name().as_deref() == Some(name)).then_some(view)
    }

    /// Its name.
    pub(crate) fn name(&self) -> Option<String> {
        self.instance.as_deref().map_or_else(|| view_for(self.filter), |name| instance_view(name, self.filter)).0
    }
}

impl WantedViews {
    /// The views that are wanted at a time.
    pub(crate) fn at(&self, now: Instant) -> BTreeSet<WantedView> {
        self.0.iter().filter(|(_, streams)| !streams.is_over(now)).map(|(view, _)| view.clone()).collect()
    }

    /// The next time at which one of them is not wanted any more, if no stream of it is opened.
    fn next_expiry(&self, now: Instant) -> Option<Instant> {
        let waiting = self.0.values().filter(|streams| streams.open == 0 && !streams.is_over(now));
        waiting.filter_map(|streams| Some(streams.ended? + GRACE)).min()
    }

    /// Returns whether it is the first one.
    fn open(&mut self, view: &WantedView, now: Instant) -> bool {
        self.0.retain(|_, streams| !streams.is_over(now));
        let streams = self.0.entry(view.clone()).or_default();
        streams.open += 1;
        streams.open == 1
    }

    /// Returns whether it was the last one.
    fn close(&mut self, view: &WantedView, now: Instant) -> bool {
        let Some(streams) = self.0.get_mut(view) else { return false };
        streams.open = streams.open.saturating_sub(1);
        streams.ended = Some(now);
        streams.open == 0
    }
}

impl ViewStreams {
    fn is_over(&self, now: Instant) -> bool {
        self.open == 0 && self.ended.is_none_or(|ended| now.saturating_duration_since(ended) >= GRACE)
    }
}

impl WantedGuard {
    /// Counts a stream. Receivers are woken if it is the first one of its view.
    pub(crate) fn open(wanted: &watch::Sender<WantedViews>, view: WantedView) -> Self {
        wanted.send_if_modified(|wanted| wanted.open(&view, Instant::now()));
        Self { wanted: wanted.clone(), view }
    }
}

impl Drop for WantedGuard {
    fn drop(&mut self) {
        self.wanted.send_if_modified(|wanted| wanted.close(&self.view, Instant::now()));
    }
}

/// Waits until other views are wanted than these. Returns false if the sender is gone.
pub(crate) async fn other_than(views: &BTreeSet<WantedView>, wanted: &mut watch::Receiver<WantedViews>) -> bool {
    loop {
        let now = Instant::now();
        let (newest, expiry) = {
            let wanted = wanted.borrow_and_update();
            (wanted.at(now), wanted.next_expiry(now))
        };
        if newest != *views {
            return true;
        }
        let changed = wanted.changed();
        let is_open = match expiry {
            None => changed.await.is_ok(),
            Some(expiry) => match tokio::time::timeout_at(expiry.into(), changed).await {
                Ok(changed) => changed.is_ok(),
                Err(_) => true,
            },
        };
        if !is_open {
            return false;
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    fn of(instance: Option<&str>) -> WantedView {
        WantedView { filter: FilterBuild::Wasm, instance: instance.map(str::to_owned) }
    }

    #[test]
    fn view_is_wanted_for_another_build_than_the_module() {
        for (name, expected) in [
            ("wasm", Some(of(None))),
            ("instance/a/wasm", Some(of(Some("a")))),
            ("instance/wasm/wasm", Some(of(Some("wasm")))),
            ("instance/wasm", None),
            ("instance/a", None),
            ("instance/module", None),
            ("gateway/infra/wasm", None),
            ("module", None),
        ] {
            assert_eq!(WantedView::of(name), expected, "{name}");
            assert!(expected.is_none_or(|view| view.name().as_deref() == Some(name)), "{name}");
        }
    }

    #[test]
    fn view_is_wanted_for_a_while_after_its_last_stream() {
        let (mut wanted, start) = (WantedViews::default(), Instant::now());
        let at = |seconds| start + Duration::from_secs(seconds);
        assert!(wanted.open(&of(Some("a")), at(0)) && !wanted.open(&of(Some("a")), at(1)));
        assert!(!wanted.close(&of(Some("a")), at(2)));
        assert_eq!((wanted.at(at(10_000)), wanted.next_expiry(at(10_000))), ([of(Some("a"))].into(), None));
        assert!(wanted.close(&of(Some("a")), at(10_000)));
        assert_eq!(wanted.at(at(10_299)), [of(Some("a"))].into());
        assert_eq!(wanted.next_expiry(at(10_299)), Some(at(10_300)));
        assert_eq!((wanted.at(at(10_300)), wanted.next_expiry(at(10_300))), (BTreeSet::new(), None));
        assert!(wanted.open(&of(None), at(10_300)));
        assert_eq!(wanted.0.len(), 1, "it is forgotten");
    }

    #[tokio::test]
    async fn stream_that_comes_back_in_time_wakes_nobody() {
        let wanted = watch::Sender::new(WantedViews::default());
        let mut receiver = wanted.subscribe();
        assert_eq!(other_than(&BTreeSet::new(), &mut receiver).now_or_never(), None);
        let first = WantedGuard::open(&wanted, of(None));
        assert_eq!(other_than(&BTreeSet::new(), &mut receiver).now_or_never(), Some(true));
        let views = [of(None)].into();
        drop(first);
        assert_eq!(other_than(&views, &mut receiver).now_or_never(), None);
        let _again = WantedGuard::open(&wanted, of(None));
        assert_eq!(other_than(&views, &mut receiver).now_or_never(), None);
        let _other = WantedGuard::open(&wanted, of(Some("a")));
        assert_eq!(other_than(&views, &mut receiver).now_or_never(), Some(true));
    }
}
