//! Resources that only those get who ask for them by name.

use super::steps::{ack, ask, opened, settle, show};
use portcullis_api::status::GatewayProgress;

use super::*;

const OWNER: &str = "owner";

/// The first pool `a`, and the pool `b` on demand, or not.
fn pools(a: &str, b: Option<(&str, bool)>) -> Arc<Snapshot> {
    let one = |name: &str, body: &str| {
        let resource = Resource::new(body.as_bytes().to_vec()).with_companion(EDS, "e").owned_by(OWNER);
        (CDS.to_owned(), name.to_owned(), resource)
    };
    let other = |(url, name, resource): (String, String, Resource), on_demand: bool| {
        (url, name, if on_demand { resource.on_demand() } else { resource })
    };
    let listener = (LDS.to_owned(), "l".to_owned(), Resource::new(b"l".to_vec()));
    let endpoints = (EDS.to_owned(), "e".to_owned(), Resource::new(b"e".to_vec()).owned_by(OWNER));
    let routes = (RDS.to_owned(), "r".to_owned(), Resource::new(b"r".to_vec()).owned_by(OWNER));
    let second = b.map(|(body, on_demand)| other(one("b", body), on_demand));
    Arc::new(Snapshot::new([listener, endpoints, routes, one("a", a)].into_iter().chain(second)))
}

fn client(snapshot: &Arc<Snapshot>) -> Encoded {
    opened(Arc::clone(snapshot), &[(CDS, &[]), (EDS, &["e"]), (LDS, &[]), (RDS, &["r"])])
}

#[test]
fn pool_on_demand_is_sent_to_who_asks_for_it() {
    let first = pools("a", Some(("b", true)));
    let mut stream = Encoded::new(Arc::clone(&first));
    let responses = stream.on_request(ask(CDS, &[]));
    assert_eq!(show(&responses), ["CDS: +a"], "a wildcard is no question for it");

    let mut stream = client(&first);
    assert!(stream.is_in_sync(), "nothing is owed");
    assert_eq!(stream.progress(&first, OWNER), Some(GatewayProgress::Acknowledged));

    let responses = stream.on_request(ask(CDS, &["b"]));
    assert_eq!(show(&responses), ["CDS: +b", "EDS: +e"], "and with it its endpoints, which Envoy waits for");
    assert_eq!(stream.progress(&first, OWNER), Some(GatewayProgress::Pending), "it is under way");
    settle(&mut stream, responses);
    assert!(stream.is_in_sync());
}

#[test]
fn pool_on_demand_that_a_node_has_follows_its_edits() {
    let mut stream = client(&pools("a", Some(("b", true))));
    let responses = stream.on_snapshot(pools("a", Some(("b2", true))));
    assert_eq!(show(&responses), [""; 0], "it does not have it");
    let responses = stream.on_request(ask(CDS, &["b"]));
    settle(&mut stream, responses);
    let responses = stream.on_snapshot(pools("a", Some(("b3", true))));
    assert_eq!(settle(&mut stream, responses), ["CDS: +b", "EDS: +e"]);
    let responses = stream.on_snapshot(pools("a", None));
    assert_eq!(settle(&mut stream, responses), ["CDS: -b"]);
    let responses = stream.on_request(ask(CDS, &["c"]));
    assert_eq!(show(&responses), ["CDS: -c"], "an unknown name is answered at once");
}

#[test]
fn pools_made_before_the_setting_changed_stay_current() {
    let mut stream = client(&pools("a", Some(("b", false))));
    let responses = stream.on_snapshot(pools("a", Some(("b", true))));
    assert_eq!(show(&responses), [""; 0]);
    let responses = stream.on_snapshot(pools("a", Some(("b2", true))));
    assert_eq!(settle(&mut stream, responses), ["CDS: +b", "EDS: +e"], "the node has it, and never asked");

    let mut stream = client(&pools("a", Some(("b", true))));
    let responses = stream.on_snapshot(pools("a", Some(("b", false))));
    assert_eq!(settle(&mut stream, responses), ["CDS: +b", "EDS: +e"], "the setting is gone");
}

#[test]
fn node_that_reconnects_tells_which_pools_it_has() {
    let first = pools("a", Some(("b", true)));
    let mut stream = client(&first);
    let responses = stream.on_request(ask(CDS, &["b"]));
    let versions = responses[0].resources.iter().map(|one| (one.name.clone(), one.version.clone())).collect();
    stream.on_request(ack(&responses[0]));

    let mut stream = Encoded::new(pools("a", Some(("b2", true))));
    let request = DeltaDiscoveryRequest { initial_resource_versions: versions, ..ask(CDS, &["*", "b"]) };
    let responses = stream.on_request(request);
    assert_eq!(show(&responses), ["CDS: +a +b"]);
}

/// The first pool `a`, and one on demand of this name.
fn with_pool(name: &str) -> Arc<Snapshot> {
    let listener = (LDS.to_owned(), "l".to_owned(), Resource::new(b"l".to_vec()));
    let routes = (RDS.to_owned(), "r".to_owned(), Resource::new(b"r".to_vec()));
    let pool = |name: &str| (CDS.to_owned(), name.to_owned(), Resource::new(name.as_bytes().to_vec()));
    let (url, name, second) = pool(name);
    Arc::new(Snapshot::new([listener, routes, pool("a"), (url, name, second.on_demand())]))
}

#[test]
fn names_of_pools_that_are_gone_take_no_room() {
    const MANY: usize = 400;
    let mut stream = client(&with_pool("b"));
    let before = stream.subscription_count();
    for number in 0..MANY {
        let name = format!("b{number}");
        let responses = stream.on_snapshot(with_pool(&name));
        settle(&mut stream, responses);
        let responses = stream.on_request(ask(CDS, &[&name]));
        assert_eq!(settle(&mut stream, responses), [format!("CDS: +{name}")]);
    }
    let grown = stream.subscription_count() - before;
    assert!(grown <= MANY / 8 + 3, "{grown} for {MANY}");
    let responses = stream.on_snapshot(with_pool("b7"));
    assert_eq!(settle(&mut stream, responses), ["CDS: +b7", "CDS: -b399"], "Envoy waits for it, and asks no more");
    let responses = stream.on_request(ask(CDS, &["b8"]));
    assert_eq!(settle(&mut stream, responses), ["CDS: -b8"], "a question has its answer");
    let responses =
        stream.on_request(DeltaDiscoveryRequest { resource_names_unsubscribe: vec!["b9".to_owned()], ..ask(CDS, &[]) });
    settle(&mut stream, responses);
    let responses = stream.on_snapshot(with_pool("b9"));
    assert_eq!(settle(&mut stream, responses), ["CDS: -b7"], "it is no longer waited for");
}

#[test]
fn node_that_reconnects_may_name_many_pools_that_are_gone() {
    let names: Vec<String> = (0..2_000).map(|number| format!("b{number}")).collect();
    let asked: Vec<&str> = ["*"].into_iter().chain(names.iter().map(String::as_str)).collect();
    let mut stream = Encoded::new(with_pool("b"));
    let versions = [("a".to_owned(), Resource::new(b"a".to_vec()).version().to_owned())];
    let request = DeltaDiscoveryRequest { initial_resource_versions: versions.into(), ..ask(CDS, &asked) };
    let responses = stream.on_request(request);
    assert_eq!(settle(&mut stream, responses), [""; 0]);
    assert!(stream.subscription_count() < 300, "{}", stream.subscription_count());
    let responses = stream.on_snapshot(with_pool("b7"));
    assert_eq!(settle(&mut stream, responses), ["CDS: +b7"]);
}

/// Else an Envoy that began after the last routes ended would never have all of its snapshot.
#[test]
fn node_without_a_question_has_all_but_what_is_on_demand() {
    let listener = (LDS.to_owned(), "l".to_owned(), Resource::new(b"l".to_vec()));
    let routes = |name: &str| (RDS.to_owned(), name.to_owned(), Resource::new(b"r".to_vec()));
    let ended = |name: &str| (RDS.to_owned(), name.to_owned(), Resource::new(b"r".to_vec()).on_demand());
    for (all, expected) in [
        (vec![listener.clone(), ended("a")], GatewayProgress::Acknowledged),
        (vec![listener.clone(), ended("a"), routes("b")], GatewayProgress::Pending),
    ] {
        let snapshot = Arc::new(Snapshot::new(all));
        let stream = opened(Arc::clone(&snapshot), &[(CDS, &[]), (LDS, &[])]);
        assert_eq!(stream.progress_with_all(&snapshot), expected);
    }
}
