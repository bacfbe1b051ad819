//! Everything that kubectl streams, through the gateway and past it: what a user sees must be the same.

mod browser;
mod copy;
mod exec;
mod forward;
mod limit;
mod logs;
mod long;
mod place;
mod proxy;
mod rolling;

use place::{Place, Protocol, Way};

#[test]
fn kubectl_streams_as_it_does_directly() {
    let Some(place) = Place::start("sessions") else { return };
    let users = [place.certificate(), place.token()];
    let kinds = users.iter().flat_map(|user| Protocol::ALL.map(|protocol| (user, protocol)));
    let ways: Vec<Way<'_>> = kinds.flat_map(|(user, protocol)| place.ways(user, protocol)).collect();
    // Each has a pod of its own.
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
