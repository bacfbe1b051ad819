//! Everything that kubectl streams, through the gateway and past it: what a user sees must be the same.

mod browser;
mod copy;
mod exec;
mod forward;
mod libraries;
mod limit;
mod logs;
mod long;
mod place;
mod proxy;
mod refused;
mod rolling;

use place::{Place, Protocol, Way};
use portcullis_e2e::GatewayOptions;
use portcullis_harness::deps;

use crate::fixture::KubeFixture;

#[test]
fn kubectl_streams_as_it_does_directly() {
    let Some(place) = Place::start("sessions") else { return };
    std::thread::scope(|scope| {
        scope.spawn(|| browser::executes_with_a_token(&place));
        side_by_side(&place, true);
    });
}

#[test]
#[ignore = "the same behind each older Envoy"]
fn kubectl_streams_through_older_envoys() {
    for version in deps::envoy_compat_versions() {
        let options = GatewayOptions { envoy_version: Some(version), ..GatewayOptions::default() };
        let Some(place) = Place::behind("sessions-older", &options) else { return };
        side_by_side(&place, false);
    }
}

/// Starts a gateway and executes commands through it, in both modes and over both protocols.
pub(crate) fn execute_behind(test: &str, options: &GatewayOptions) -> Option<KubeFixture> {
    let place = Place::behind(test, options)?;
    let user = place.certificate();
    let ways: Vec<Way<'_>> = Protocol::ALL.into_iter().flat_map(|protocol| place.through(&user, protocol)).collect();
    std::thread::scope(|scope| {
        for way in &ways {
            scope.spawn(|| exec::outputs_and_exit_code_arrive_apart(way));
        }
    });
    drop(ways);
    Some(place.fixture)
}

fn side_by_side(place: &Place, past_the_gateway: bool) {
    let mut ways = place.ways_through();
    if past_the_gateway {
        ways.extend(Protocol::ALL.map(|protocol| place.directly(&place.certificate(), protocol)));
    }
    std::thread::scope(|scope| {
        let running: Vec<_> = ways.iter().map(|way| scope.spawn(|| everything(way))).collect();
        for (way, running) in ways.iter().zip(running) {
            running.join().unwrap_or_else(|_| panic!("{way}"));
        }
    });
    for way in &ways {
        way.used_its_protocol();
    }
}

fn everything(way: &Way<'_>) {
    exec::outputs_and_exit_code_arrive_apart(way);
    exec::input_arrives_and_ends(way);
    exec::a_terminal_follows_its_size(way);
    exec::what_is_not_there_is_told(way);
    exec::attach_talks_to_the_main_process(way);
    copy::files_are_the_same_on_both_sides(way);
    forward::connections_side_by_side(way);
    logs::logs_are_followed(way);
    if way.protocol == Protocol::WebSocket {
        proxy::a_local_proxy_serves_all_of_it(way);
    }
}
