use super::condition::Finding;
use super::names::{listed, many};
use super::{ConditionType, Gateway, Observation, Served, Standing, State};

/// Whether every gateway that is connected has acknowledged what the object says.
pub(super) fn finding(seen: &Observation<'_>) -> Finding {
    let finding = |status, reason, message| Finding::new(ConditionType::Programmed, status, reason, message);
    if seen.served == Served::Nothing {
        return finding(State::False, "NotAccepted", "nothing of it is served, because it is not accepted".to_owned());
    }
    let version = version(seen);
    if seen.gateways.is_empty() {
        return finding(State::False, "NoGateways", format!("{version}: no gateway is connected"));
    }
    let refusing: Vec<_> = seen.gateways.iter().filter_map(refusal).collect();
    if let Some((_, message)) = refusing.first() {
        let names = listed(refusing.iter().map(|(name, _)| *name));
        let of = seen.gateways.len();
        let message =
            format!("{version}: refused by {} of {of} ({names}), which keeps what it had: {message}", refusing.len());
        return finding(State::False, "Refused", message);
    }
    let waiting = seen.gateways.iter().filter(|one| one.standing == Standing::Pending).map(|one| one.name);
    let count = waiting.clone().count();
    if count > 0 {
        let message = format!("{version}: waiting for {} ({})", many(count, "gateway"), listed(waiting));
        return finding(State::False, "Pending", message);
    }
    let names = listed(seen.gateways.iter().map(|one| one.name));
    let message = format!("{version}: acknowledged by {} ({names})", many(seen.gateways.len(), "gateway"));
    match seen.served {
        Served::Older(_) => finding(State::False, "OlderVersion", message),
        _ => finding(State::True, "Programmed", message),
    }
}

/// Which version the gateways are asked about.
fn version(seen: &Observation<'_>) -> String {
    let hash = seen.content_hash;
    let generation = |number: Option<i64>| number.map(|number| format!(" (generation {number})")).unwrap_or_default();
    match seen.served {
        Served::Older(number) => {
            let older = generation(number);
            format!("the version that was accepted last{older} is served, content {hash}")
        }
        _ => match seen.generation {
            Some(number) => format!("generation {number}, content {hash}"),
            None => format!("content {hash}"),
        },
    }
}

fn refusal<'a>(gateway: &'a Gateway<'_>) -> Option<(&'a str, &'a str)> {
    match &gateway.standing {
        Standing::Refused { message } => Some((gateway.name, message)),
        _ => None,
    }
}
