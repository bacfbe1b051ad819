//! Routes with several Gateways, some of which have no room for them.

use serde_json::{Value, json};

use super::bounds::{modest, names, route, to_services, wide_gateway, wildcard, with_almost_too_many_clusters};
use super::world::{INFRA, class, created, gateway, inventory, listener, read};
use crate::{
    Attached, ConditionVerdict, GatewayVerdict, HostPattern, HostTable, Inventory, ListenerRole, ObjectName,
    RouteClosure, RouteVerdict, attach,
};

/// A Gateway with listeners of its own.
fn named(name: &str, listeners: &Value) -> Value {
    let mut gateway = gateway(listeners);
    gateway["metadata"]["name"] = json!(name);
    gateway
}

/// The route at Gateways, in this order.
fn at(mut route: Value, gateways: &[&str]) -> Value {
    let parent = |name: &&str| json!({"name": name, "namespace": INFRA});
    route["spec"]["parentRefs"] = gateways.iter().map(parent).collect();
    route
}

fn for_requests(mut route: Value) -> Value {
    route["kind"] = json!("HTTPRoute");
    route
}

/// `Accepted` of a route at each of its parents, by the names of their Gateways.
fn accepted<'a>(attached: &'a Attached, route: &str) -> Vec<(&'a str, &'a ConditionVerdict)> {
    let mut found: Vec<_> =
        verdict(attached, route).parents.iter().map(|one| (one.parent.name.as_str(), &one.conditions[0])).collect();
    found.sort_by_key(|(gateway, _)| *gateway);
    found
}

fn reasons<'a>(attached: &'a Attached, route: &str) -> Vec<(&'a str, &'static str)> {
    accepted(attached, route).into_iter().map(|(gateway, condition)| (gateway, condition.reason)).collect()
}

fn verdict<'a>(attached: &'a Attached, route: &str) -> &'a RouteVerdict {
    attached.routes.iter().find(|one| one.name.to_string() == route).unwrap()
}

/// The host names at the first listener of a Gateway.
fn table<'a>(attached: &'a Attached, gateway: &str) -> &'a HostTable {
    match &attached.served.iter().find(|one| one.gateway.name == gateway).unwrap().listeners[0].role {
        ListenerRole::Terminate { routes, .. } | ListenerRole::Passthrough(routes) => routes,
        ListenerRole::Redirect(_) => panic!("it serves routes"),
    }
}

/// The number of accepted routes at the first listener of a Gateway.
fn attached_routes(attached: &Attached, gateway: &str) -> usize {
    let is_it = |one: &&GatewayVerdict| one.name.name == gateway;
    attached.gateways.iter().find(is_it).unwrap().listeners[0].attached_routes
}

/// Routes that fill the Gateway `full`, and one of the same namespace without room there.
struct FullGateway {
    reason: &'static str,
    gateways: [Value; 2],
    older: Vec<Value>,
    last: Value,
    /// A host name of it, which a younger route of another namespace has, too.
    host: &'static str,
    inventory: Inventory,
}

impl FullGateway {
    /// With the route's parents in an order, and the objects as well.
    fn attached(&self, parents: &[&str], is_reversed: bool) -> Attached {
        let hosts = [self.host.to_owned(), "*.test".to_owned()].into_iter();
        let mut late = at(route("team-b", "late", hosts, 2026), &["full", "roomy"]);
        late["kind"] = self.last["kind"].clone();
        let routes = self.older.iter().cloned().chain([at(self.last.clone(), parents), late]);
        let mut all: Vec<Value> = [class()].into_iter().chain(self.gateways.clone()).chain(routes).collect();
        if is_reversed {
            all.reverse();
        }
        attach(&read(&all), &self.inventory)
    }
}

fn case(reason: &'static str, protocol: &str, older: Vec<Value>, last: Value, host: &'static str) -> FullGateway {
    let gateways = ["full", "roomy"].map(|name| named(name, &json!([listener("l", 443, protocol, "")])));
    FullGateway { reason, gateways, older, last, host, inventory: Inventory { is_complete: false, ..inventory() } }
}

/// One name less than a namespace may have at a Gateway; of the last route's two the first one is kept.
fn of_names() -> FullGateway {
    let count = |number: usize| if number == 15 { 1_023 } else { 1_024 };
    let older = |number: usize| {
        let prefix = format!("a{number}x");
        at(route("team-a", &format!("r{number:02}"), names(&prefix, count(number)), 2024), &["full"])
    };
    let last = route("team-a", "last", names("last", 2), 2025);
    case("TooManyHostnames", "TLS", (0..16).map(older).collect(), last, "last0.test")
}

/// As many Services as a namespace may have at a Gateway.
fn of_services() -> FullGateway {
    let older = |number: usize| at(to_services("team-a", &format!("r{number}"), number * 16, 16, 2024), &["full"]);
    let last = to_services("team-a", "last", 1_000, 1, 2025);
    case("TooManyBackends", "TLS", (0..8).map(older).collect(), last, "last.team-a.test")
}

/// As many routes for requests as a namespace may have at a Gateway.
fn of_chains(count: usize) -> FullGateway {
    let of_team = |name: String, year: u32| for_requests(route("team-a", &name, names(&name, 1), year));
    let older = |number: usize| at(of_team(format!("r{number:03}x"), 2024), &["full"]);
    case("TooManyRoutes", "HTTPS", (0..count).map(older).collect(), of_team("last".to_owned(), 2025), "last0.test")
}

/// A wildcard at the listeners of a Gateway, below which are as many names as a namespace may have there.
fn of_withheld_names() -> FullGateway {
    let mut last = wildcard("team-a", "full", 2025);
    last["metadata"]["name"] = json!("last");
    last["spec"]["hostnames"] = json!(["*.k.test"]);
    let older = vec![wildcard("team-a", "full", 2024)];
    let case = case("TooManyHostnames", "TLS", older, last, "*.k.test");
    let [_, roomy] = case.gateways;
    FullGateway { gateways: [wide_gateway("full"), roomy], inventory: with_almost_too_many_clusters(), ..case }
}

#[test]
fn gateway_that_is_full_closes_no_route_at_another_one() {
    for (name, case) in [
        ("names", of_names()),
        ("Services", of_services()),
        ("routes for requests", of_chains(256)),
        ("names of clusters", of_withheld_names()),
    ] {
        let attached = case.attached(&["full", "roomy"], false);
        assert_eq!(reasons(&attached, "team-a/last"), [("full", case.reason), ("roomy", "Accepted")], "{name}");
        let message = &accepted(&attached, "team-a/last")[0].1.message;
        assert!(message.contains("at one Gateway"), "{name}: {message}");
        assert!(verdict(&attached, "team-a/last").alone[0].status, "{name}: nothing is wrong with the route itself");
        for other in [case.attached(&["roomy", "full"], false), case.attached(&["full", "roomy"], true)] {
            let found = reasons(&other, "team-a/last");
            assert_eq!(found, [("full", case.reason), ("roomy", "Accepted")], "{name}, in another order");
            assert_eq!(other.served, attached.served, "{name}, in another order");
        }
        // `late` has asked for the name, and for a wildcard above it.
        let host = HostPattern::parse(case.host).unwrap();
        let (full, roomy) = (table(&attached, "full"), table(&attached, "roomy"));
        assert!(full.withheld.contains(&host) && !full.routes.contains_key(&host), "{name}: it stays held");
        assert_eq!(roomy.routes[&host].route.to_string(), "team-a/last", "{name}");
        assert!(!roomy.withheld.contains(&host), "{name}");
        assert_eq!(attached_routes(&attached, "roomy"), 2, "{name}: this one and the younger one");
    }
}

#[test]
fn route_is_refused_at_all_listeners_of_a_full_gateway() {
    let mut case = of_chains(255);
    let listeners = json!([listener("l", 443, "HTTPS", ""), listener("m", 8443, "HTTPS", "")]);
    case.gateways[0] = named("full", &listeners);
    for older in &mut case.older {
        older["spec"]["parentRefs"][0]["sectionName"] = json!("l");
    }
    let mut last = at(case.last, &["full", "full", "roomy"]);
    for (index, section) in [(0, "l"), (1, "m")] {
        last["spec"]["parentRefs"][index]["sectionName"] = json!(section);
    }
    let all: Vec<Value> = [class()].into_iter().chain(case.gateways).chain(case.older).chain([last]).collect();
    let attached = attach(&read(&all), &case.inventory);
    let expected = [("full", "TooManyRoutes"), ("full", "TooManyRoutes"), ("roomy", "Accepted")];
    assert_eq!(reasons(&attached, "team-a/last"), expected);
    let host = HostPattern::parse(case.host).unwrap();
    assert!(!table(&attached, "full").routes.contains_key(&host), "it is open at no listener there");
}

/// The bound is of all Gateways of a namespace, and the author of one multiplies what the route takes there.
#[test]
fn names_beyond_all_room_close_a_route_where_they_are_most() {
    let gateways = [wide_gateway("g"), wide_gateway("h"), modest()];
    let route = at(wildcard("team", "all", 2020), &["g", "h", "modest"]);
    let all: Vec<Value> = [class()].into_iter().chain(gateways).chain([route]).collect();
    let attached = attach(&read(&all), &with_almost_too_many_clusters());
    let found = reasons(&attached, "team/at-all");
    assert_eq!(found, [("g", "Accepted"), ("h", "TooManyHostnames"), ("modest", "Accepted")]);
    let message = &accepted(&attached, "team/at-all")[1].1.message;
    assert!(message.contains("262144 of the routes of one namespace, or"), "{message}");
}

#[test]
fn route_refused_at_one_gateway_counts_at_its_others() {
    let gateways = ["g", "h", "i"].map(wide_gateway);
    let first = wildcard("team", "g", 2020);
    let both = at(wildcard("team", "both", 2021), &["g", "h"]);
    let beyond = wildcard("team", "i", 2022);
    let all: Vec<Value> = [class()].into_iter().chain(gateways).chain([first, both, beyond]).collect();
    let attached = attach(&read(&all), &with_almost_too_many_clusters());
    assert_eq!(reasons(&attached, "team/at-g"), [("g", "Accepted")]);
    assert_eq!(reasons(&attached, "team/at-both"), [("g", "TooManyHostnames"), ("h", "Accepted")]);
    assert_eq!(reasons(&attached, "team/at-i"), [("i", "TooManyHostnames")]);
}

#[test]
fn chains_of_one_namespace_are_bounded_at_some_gateways() {
    // All of these are 510, of 512 that a namespace may have.
    let of_team =
        |name: String, gateways: &[&str]| at(for_requests(route("team-a", &name, names(&name, 1), 2024)), gateways);
    let older = (0..255).map(|number| of_team(format!("r{number:03}x"), &["g", "h"]));
    let gateways = ["g", "h", "i"].map(|name| named(name, &json!([listener("l", 443, "HTTPS", "")])));
    let last = created(of_team("last".to_owned(), &["i", "h", "g"]), 2025);
    let all: Vec<Value> = [class()].into_iter().chain(gateways).chain(older).chain([last]).collect();
    let attached = attach(&read(&all), &inventory());
    let found = reasons(&attached, "team-a/last");
    assert_eq!(found, [("g", "TooManyRoutes"), ("h", "Accepted"), ("i", "Accepted")], "in the order of its parents");
}

#[test]
fn closure_at_one_gateway_leaves_the_refusal_at_another() {
    let case = of_chains(256);
    let attached = case.attached(&["full", "roomy"], false);
    let closure = |gateway: &str| RouteClosure {
        gateway: ObjectName::new(INFRA, gateway),
        listener: "l".to_owned(),
        reason: "TooManyConfigurations",
        message: "no room".into(),
    };
    let closed = verdict(&attached, "team-a/last").with_closures(&[closure("full"), closure("roomy")], |name| {
        attached.served.iter().find(|one| one.gateway == *name).map(AsRef::as_ref)
    });
    let found: Vec<&str> = closed.parents.iter().map(|one| one.conditions[0].reason).collect();
    assert_eq!(found, ["TooManyRoutes", "TooManyConfigurations"]);
}
