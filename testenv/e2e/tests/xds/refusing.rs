//! Envoys that refuse some of their resources, from the beginning or after they come from another control plane: the bad ones
//! are found in few responses, and no other resource waits for them.

use std::collections::BTreeMap;
use std::sync::Arc;

use portcullis_xds::{Limits, Part, Resource, Snapshot};

use crate::envoy::{Envoy, History};
use crate::site::{CDS, LDS, Site};

/// An object's name and content.
type Objects = BTreeMap<String, String>;

fn objects(good: usize, bad: &[&str]) -> Objects {
    let good = (0..good).map(|number| (format!("good{number:04}"), "1".to_owned()));
    good.chain(bad.iter().map(|name| ((*name).to_owned(), "!bad".to_owned()))).collect()
}

/// Each object is a cluster of its own.
fn clusters(objects: &Objects) -> Arc<Snapshot> {
    let one = |(name, content): (&String, &String)| {
        let resource = Resource::new(format!("{name}={content};").into_bytes()).owned_by(name.as_str());
        (CDS.to_owned(), name.clone(), resource)
    };
    Arc::new(Snapshot::new(objects.iter().map(one)))
}

/// Each object is a chain of one listener.
fn chains(objects: &Objects) -> Arc<Snapshot> {
    let parts = objects.iter().map(|(name, content)| Part {
        owner: name.as_str().into(),
        body: vec![format!("{name}={content};").into()],
        fallback: Some(format!("{name}=closed;").into()),
    });
    Arc::new(Snapshot::new([(LDS.to_owned(), "l".to_owned(), Resource::new("l=1;").with_parts(parts))]))
}

fn made(type_url: &str, objects: &Objects) -> Arc<Snapshot> {
    if type_url == CDS { clusters(objects) } else { chains(objects) }
}

/// Everything that an Envoy has, as one text.
fn text(envoy: &Envoy) -> String {
    envoy.has.values().map(|body| String::from_utf8_lossy(body)).collect()
}

fn has(envoy: &Envoy, name: &str, content: &str) -> bool {
    text(envoy).contains(&format!("{name}={content};"))
}

fn has_good_ones(envoy: &Envoy, objects: &Objects) -> bool {
    let text = text(envoy);
    let good = objects.iter().filter(|(_, content)| *content != "!bad");
    good.into_iter().all(|(name, content)| text.contains(&format!("{name}={content};")))
}

/// Two trials for each halving, for each bad one, and some to begin and to end.
fn most(all: usize, bad: usize) -> usize {
    5 + 3 * bad + 2 * bad * (usize::BITS - all.leading_zeros()) as usize
}

/// The resources of an Envoy to which another control plane, with other objects and without a list of parts, sent everything
/// before.
fn strange(type_url: &str) -> History {
    let versions = if type_url == CDS { BTreeMap::new() } else { BTreeMap::from([("l".to_owned(), "0".repeat(32))]) };
    History { has: BTreeMap::from([("old".to_owned(), b"old=1;".to_vec())]), versions }
}

async fn found(type_url: &'static str, names_it: bool, is_strange: bool) {
    for (good, bad) in [(1, &["bad"][..]), (10, &["bad"]), (1_000, &["bad"]), (100, &["bad", "good0050x", "good0051x"])]
    {
        let all = objects(good, bad);
        let kind = if type_url == CDS { "clusters" } else { "chains" };
        let what = format!("{kind}, named: {names_it}, strange: {is_strange}, {good} good, {} bad", bad.len());
        let site = Site::start("refusing", Limits::default(), made(type_url, &all)).await;
        let history = if is_strange { strange(type_url) } else { History::default() };
        let caller = site.caller(&site.identity("envoy-0"));
        let mut envoy = Envoy::connect(&caller, type_url, history, names_it).await;
        envoy.until(&what, |envoy| has_good_ones(envoy, &all)).await;
        let are_told = |site: &Site| {
            let nodes = site.registry.nodes();
            let told = nodes.first().map(|node| node.refused.iter().filter_map(|one| one.owner.clone()).collect());
            told == Some(bad.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>())
        };
        envoy.wait_for_registry(&site, &what, are_told).await;
        envoy.settle().await;
        assert!(has_good_ones(&envoy, &all) && are_told(&site), "{what}");
        let most = most(all.len(), bad.len());
        assert!(envoy.pushes <= most, "{what}: {} pushes, at most {most}", envoy.pushes);
        // Others change on, and what was refused is not sent again.
        let refusals = envoy.refusals;
        let mut edited = all.clone();
        edited.insert("good0000".to_owned(), "2".to_owned());
        edited.insert("newcomer".to_owned(), "1".to_owned());
        site.snapshots.send_replace(Some(made(type_url, &edited)));
        envoy.until(&what, |envoy| has(envoy, "good0000", "2") && has(envoy, "newcomer", "1")).await;
        assert_eq!(envoy.refusals, refusals, "{what}");
        // It is fixed.
        edited.values_mut().filter(|content| *content == "!bad").for_each(|content| "3".clone_into(content));
        site.snapshots.send_replace(Some(made(type_url, &edited)));
        envoy.until(&what, |envoy| bad.iter().all(|name| has(envoy, name, "3"))).await;
    }
}

macro_rules! cases {
    ($($name:ident: $url:ident $named:literal $strange:literal;)*) => {
        $(#[tokio::test(flavor = "multi_thread")]
        async fn $name() {
            found($url, $named, $strange).await;
        })*
    };
}

cases! {
    bad_chains_from_the_beginning: LDS false false;
    bad_chains_for_an_envoy_of_another: LDS false true;
    bad_clusters_from_the_beginning: CDS true false;
    bad_clusters_that_no_error_names: CDS false false;
}

/// A control plane that restarts with a bad edit: unchanged objects stay untouched during the search.
#[tokio::test(flavor = "multi_thread")]
async fn restart_with_a_bad_edit_touches_nobody_else() {
    let before = objects(50, &[]);
    let site = Site::start("refusing-first", Limits::default(), chains(&before)).await;
    let mut envoy = Envoy::connect(&site.caller(&site.identity("envoy-0")), LDS, History::default(), false).await;
    envoy.until("it has all", |envoy| has_good_ones(envoy, &before)).await;
    envoy.settle().await;
    let mut after = before.clone();
    after.insert("good0007".to_owned(), "!bad".to_owned());
    after.insert("good0008".to_owned(), "2".to_owned());
    after.insert("newcomer".to_owned(), "1".to_owned());
    let second = Site::start("refusing-second", Limits::default(), chains(&after)).await;
    let caller = second.caller(&second.identity("envoy-0"));
    let mut envoy = Envoy::connect(&caller, LDS, envoy.history(), false).await;
    let is_untouched = |envoy: &Envoy| {
        (0..50).filter(|number| ![7, 8].contains(number)).all(|number| has(envoy, &format!("good{number:04}"), "1"))
    };
    let is_done = |envoy: &Envoy| {
        assert!(is_untouched(envoy));
        has(envoy, "good0008", "2") && has(envoy, "newcomer", "1")
    };
    envoy.until("the others go on", is_done).await;
    envoy.settle().await;
    assert!(is_done(&envoy));
    assert!(envoy.pushes <= 10, "{}", envoy.pushes);
}
