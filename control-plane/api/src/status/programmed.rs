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
    let (here, elsewhere): (Vec<_>, Vec<_>) = seen.gateways.iter().partition(|one| one.standing != Standing::Elsewhere);
    let others = match elsewhere.len() {
        0 => String::new(),
        count => format!("; not known of {} of other replicas ({})", many(count, "gateway"), names(&elsewhere)),
    };
    if here.is_empty() && elsewhere.is_empty() {
        return finding(State::False, "NoGateways", format!("{version}: no gateway is connected"));
    }
    if here.is_empty() {
        let message = format!("{version}: no gateway is connected to the replica that tells this{others}");
        return finding(State::Unknown, "OtherReplicas", message);
    }
    let refusing: Vec<_> = here.iter().filter_map(|one| refusal(one)).collect();
    if let Some((_, message)) = refusing.first() {
        let (count, of, names) = (refusing.len(), here.len(), listed(refusing.iter().map(|(name, _)| *name)));
        let message =
            format!("{version}: refused by {count} of {of} ({names}), which keeps what it had: {message}{others}");
        return finding(State::False, "Refused", message);
    }
    let waiting: Vec<_> = here.iter().filter(|one| one.standing == Standing::Pending).copied().collect();
    if !waiting.is_empty() {
        let message =
            format!("{version}: waiting for {} ({}){others}", many(waiting.len(), "gateway"), names(&waiting));
        return finding(State::False, "Pending", message);
    }
    let message = format!("{version}: acknowledged by {} ({}){others}", many(here.len(), "gateway"), names(&here));
    match seen.served {
        Served::Older(_) => finding(State::False, "OlderVersion", message),
        _ => finding(State::True, "Programmed", message),
    }
}

fn names(gateways: &[&Gateway<'_>]) -> String {
    listed(gateways.iter().map(|one| one.name))
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
