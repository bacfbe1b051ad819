//! The condition `Programmed` of Gateways and their listeners, and the addresses of a Gateway.

use std::collections::BTreeMap;
use std::net::IpAddr;

use portcullis_attach::{ConditionVerdict, ListenerVerdict, ServedGateway, ServedListener};
use serde_json::{Value, json};

use super::super::gateway_views::ProgrammedState;

/// Why something that is not accepted is not programmed.
const INVALID: &str = "it is not accepted";
/// Most addresses of a status, by the definition of Gateways: with more the API server refuses it.
const MAX_ADDRESSES: usize = 16;
/// Why a listener of a Gateway that is not accepted is not programmed.
const UNSERVED: &str = "nothing of its Gateway is served";
/// Why an accepted listener without a usable certificate is not programmed.
const NO_CERTIFICATE: &str = "it has no certificate that can be used";

/// Why, or how, a Gateway is programmed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Programmed<'a> {
    served: Option<&'a ServedGateway>,
    state: &'a ProgrammedState,
    /// Its listeners that are closed, and why.
    closed: Option<&'a BTreeMap<String, &'static str>>,
}

impl<'a> Programmed<'a> {
    /// `served` is what is accepted of the Gateway.
    pub(super) fn of(
        served: Option<&'a ServedGateway>,
        state: Option<&'a ProgrammedState>,
        closed: Option<&'a BTreeMap<String, &'static str>>,
    ) -> Self {
        Self { served, state: state.unwrap_or(&ProgrammedState::NoEnvoy), closed }
    }

    /// The addresses in the status: those that the Gateway asks for, else those of its Envoys. They stay while its Envoys are
    /// away: names may be published for them. Of too many those stay that are there.
    pub(super) fn addresses(&self, before: &[Value]) -> Vec<Value> {
        let Some(served) = self.served else { return Vec::new() };
        let written = |ip: &IpAddr| json!({"type": "IPAddress", "value": ip.to_string()});
        let asked: Vec<Value> = served.addresses.iter().filter(|ip| !ip.is_unspecified()).map(written).collect();
        let mut found = match self.state {
            _ if !asked.is_empty() => asked,
            ProgrammedState::Programmed(parts) => parts.addresses.iter().map(written).collect(),
            _ => before.to_vec(),
        };
        if found.len() > MAX_ADDRESSES {
            // Stable: those of before come first.
            found.sort_by_key(|one| !before.contains(one));
            found.truncate(MAX_ADDRESSES);
        }
        found
    }

    /// The conditions of the Gateway.
    pub(super) fn gateway(&self, verdicts: &[ConditionVerdict], has_addresses: bool) -> Vec<ConditionVerdict> {
        let has_served =
            self.served.is_some_and(|served| served.listeners.iter().any(|one| self.closed_because(one).is_none()));
        let refusal = match has_served {
            true if has_addresses => self.refusal(),
            true => self.refusal().or(Some((
                "AddressNotAssigned",
                "it asks for no address, and none of its Envoys says by which clients reach it (--gateway-address)"
                    .to_owned(),
            ))),
            false => Some(("Pending", "none of its listeners is served".to_owned())),
        };
        with_programmed(verdicts, refusal.map_or_else(|| Ok(self.note()), Err))
    }

    /// The conditions of a listener.
    pub(super) fn listener(&self, listener: &ListenerVerdict) -> Vec<ConditionVerdict> {
        let served = self.served.map(|served| served.listeners.iter().find(|one| one.name == listener.name));
        let closed = match served {
            Some(Some(served)) => self.closed_because(served),
            Some(None) => Some(NO_CERTIFICATE),
            None => Some(UNSERVED),
        };
        let refusal = closed.map(|why| ("Pending", why.to_owned())).or_else(|| self.refusal());
        let refusal = refusal.or_else(|| self.refusal_at(&listener.name));
        with_programmed(&listener.conditions, refusal.map_or_else(|| Ok(String::new()), Err))
    }

    fn closed_because(&self, listener: &ServedListener) -> Option<&'static str> {
        self.closed?.get(&listener.name).copied()
    }

    fn refusal(&self) -> Option<(&'static str, String)> {
        let pending = |message: &str| Some(("Pending", message.to_owned()));
        match self.state {
            ProgrammedState::Programmed(_) => None,
            ProgrammedState::NoEnvoy => {
                pending("no Envoy that belongs to this Gateway is connected (portcullis bootstrap --gateway)")
            }
            ProgrammedState::Pending => pending("its Envoys have not acknowledged it yet"),
            ProgrammedState::Refused(why) => Some(("Invalid", refused_by(why))),
        }
    }

    /// The refusal of the port of a listener.
    fn refusal_at(&self, listener: &str) -> Option<(&'static str, String)> {
        let ProgrammedState::Programmed(parts) = self.state else { return None };
        let served = self.served?.listeners.iter().find(|one| one.name == listener)?;
        Some(("Invalid", refused_by(parts.refused_ports.get(&served.port)?)))
    }

    /// The words beside a programmed Gateway.
    fn note(&self) -> String {
        match self.state {
            ProgrammedState::Programmed(parts) => parts.refusal.clone(),
            _ => String::new(),
        }
    }
}

fn refused_by(envoy: &str) -> String {
    format!("an Envoy refuses it: {envoy}")
}

/// `Programmed` with a message if it is so, else why not.
fn with_programmed(
    verdicts: &[ConditionVerdict],
    programmed: Result<String, (&'static str, String)>,
) -> Vec<ConditionVerdict> {
    let accepted = verdicts.iter().find(|one| one.kind == "Accepted");
    let is_accepted = accepted.is_some_and(|one| one.status);
    let pending = accepted.filter(|one| one.reason == "Pending");
    let (status, reason, message) = match (pending, programmed) {
        (Some(pending), _) => (false, pending.reason, pending.message.clone()),
        _ if !is_accepted => (false, "Invalid", INVALID.to_owned()),
        (None, Err((reason, message))) => (false, reason, message),
        (None, Ok(message)) => (true, "Programmed", message),
    };
    let programmed = ConditionVerdict { kind: "Programmed", status, reason, message };
    verdicts.iter().cloned().chain([programmed]).collect()
}

#[cfg(test)]
mod tests {
    use super::super::super::gateway_views::ServedParts;
    use portcullis_attach::{DoorPolicies, HostPattern, HostTable, ListenerRole, ObjectName};

    use super::*;

    fn listener(name: &str, role: ListenerRole) -> ServedListener {
        ServedListener { name: name.to_owned(), port: 443, host: HostPattern::Any, role }
    }

    fn gateway(addresses: Vec<IpAddr>) -> ServedGateway {
        let listeners = vec![
            listener("tls", ListenerRole::Passthrough(HostTable::default())),
            listener(
                "https",
                ListenerRole::Terminate { certificates: Vec::new(), client_ca: None, routes: HostTable::default() },
            ),
        ];
        let (gateway, policies) = (ObjectName::new("infra", "edge"), DoorPolicies::default());
        ServedGateway { gateway, addresses, settings: None, listeners, policies }
    }

    fn accepted() -> Vec<ConditionVerdict> {
        vec![ConditionVerdict { kind: "Accepted", status: true, reason: "Accepted", message: String::new() }]
    }

    fn told(conditions: &[ConditionVerdict]) -> (bool, &'static str) {
        let found = conditions.iter().find(|one| one.kind == "Programmed").unwrap();
        (found.status, found.reason)
    }

    #[test]
    fn gateway_is_programmed_once_an_envoy_acknowledged() {
        let served = gateway(Vec::new());
        let address: IpAddr = [192, 0, 2, 1].into();
        for (state, expected, of_listener) in [
            (ProgrammedState::NoEnvoy, (false, "Pending"), (false, "Pending")),
            (ProgrammedState::Pending, (false, "Pending"), (false, "Pending")),
            (ProgrammedState::Refused("x".to_owned()), (false, "Invalid"), (false, "Invalid")),
            (ProgrammedState::programmed([].into()), (false, "AddressNotAssigned"), (true, "Programmed")),
            (ProgrammedState::programmed([address].into()), (true, "Programmed"), (true, "Programmed")),
        ] {
            let closed = [("https".to_owned(), "no certificate")].into();
            let programmed = Programmed::of(Some(&served), Some(&state), Some(&closed));
            let has_addresses = !programmed.addresses(&[]).is_empty();
            assert_eq!(told(&programmed.gateway(&accepted(), has_addresses)), expected, "{state:?}");
            let verdict = |name: &str| ListenerVerdict {
                name: name.to_owned(),
                supported_kinds: Vec::new(),
                attached_routes: 0,
                conditions: accepted(),
            };
            assert_eq!(told(&programmed.listener(&verdict("tls"))), of_listener, "{state:?}");
            assert_eq!(told(&programmed.listener(&verdict("https"))), (false, "Pending"), "{state:?}");
            assert_eq!(told(&programmed.gateway(&[], true)), (false, "Invalid"));
            let open = Programmed::of(Some(&served), Some(&state), None);
            assert_eq!(told(&open.listener(&verdict("https"))), of_listener, "{state:?}");
            assert_eq!(told(&open.listener(&verdict("without-certificate"))), (false, "Pending"), "{state:?}");
        }
    }

    #[test]
    fn listener_whose_port_is_refused_is_invalid_alone() {
        let mut served = gateway(Vec::new());
        served.listeners[1].port = 8443;
        let parts = ServedParts {
            addresses: [IpAddr::from([192, 0, 2, 1])].into(),
            refused_ports: [(8443, "e0: port: taken".to_owned())].into(),
            refusal: "1 of 1 Envoys refuses something: e0: port: taken".to_owned(),
            ..ServedParts::default()
        };
        let state = ProgrammedState::Programmed(parts);
        let programmed = Programmed::of(Some(&served), Some(&state), None);
        let found = programmed.gateway(&accepted(), true);
        assert_eq!(told(&found), (true, "Programmed"));
        assert!(found[1].message.starts_with("1 of 1 Envoys refuses"), "{found:?}");
        let verdict = |name: &str| ListenerVerdict {
            name: name.to_owned(),
            supported_kinds: Vec::new(),
            attached_routes: 0,
            conditions: accepted(),
        };
        assert_eq!(told(&programmed.listener(&verdict("tls"))), (true, "Programmed"));
        let found = programmed.listener(&verdict("https"));
        assert_eq!(told(&found), (false, "Invalid"));
        assert_eq!(found[1].message, "an Envoy refuses it: e0: port: taken");
    }

    #[test]
    fn addresses_stay_while_envoys_are_away() {
        let (own, asked): (IpAddr, IpAddr) = ([192, 0, 2, 1].into(), [192, 0, 2, 9].into());
        let before = [json!({"type": "IPAddress", "value": "192.0.2.5"})];
        let there = ProgrammedState::programmed([own].into());
        for (addresses, state, expected) in [
            (vec![], &there, vec!["192.0.2.1"]),
            (vec![], &ProgrammedState::NoEnvoy, vec!["192.0.2.5"]),
            (vec![asked], &there, vec!["192.0.2.9"]),
            (vec![asked], &ProgrammedState::NoEnvoy, vec!["192.0.2.9"]),
            (vec![[0, 0, 0, 0].into()], &there, vec!["192.0.2.1"]),
        ] {
            let served = gateway(addresses);
            let found = Programmed::of(Some(&served), Some(state), None).addresses(&before);
            let found: Vec<&str> = found.iter().map(|one| one["value"].as_str().unwrap()).collect();
            assert_eq!(found, expected, "{state:?}");
        }
        assert_eq!(Programmed::of(None, Some(&there), None).addresses(&before), Vec::<Value>::new());
    }

    #[test]
    fn addresses_have_room_in_the_status_and_stay() {
        let (served, ip) = (gateway(Vec::new()), |last: u8| IpAddr::from([192, 0, 2, last]));
        let all = ProgrammedState::programmed((1..=40).map(ip).collect());
        let first = Programmed::of(Some(&served), Some(&all), None).addresses(&[]);
        assert_eq!(first.len(), MAX_ADDRESSES);
        let fewer = ProgrammedState::programmed((5..=40).map(ip).collect());
        let next = Programmed::of(Some(&served), Some(&fewer), None).addresses(&first);
        assert!(next.len() == MAX_ADDRESSES && next[..12] == first[4..], "{next:?}");
        assert_eq!(Programmed::of(Some(&served), Some(&all), None).addresses(&next), next, "one that is back waits");
        let asked = gateway((1..=40).map(ip).collect());
        assert_eq!(Programmed::of(Some(&asked), None, None).addresses(&[]), first);
    }
}
