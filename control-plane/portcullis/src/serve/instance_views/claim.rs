use portcullis_filter_config::NODE_INSTANCE;
use portcullis_xds::{INSTANCE_DOMAIN, Membership, NodeInfo, Unserved};

/// The instance that a node belongs to, if it belongs to one. Its bootstrap says which, and its certificate that it may: a process
/// of this machine may be any.
pub(in super::super) fn claimed_instance(node: &NodeInfo) -> Result<Option<&str>, Unserved> {
    let foreign = |why: &str| Err(Unserved::Foreign(why.to_owned()));
    match (node.metadata.get(NODE_INSTANCE), &node.membership) {
        (None, Membership::Instances(_)) => {
            foreign("its certificate is that of an Instance's Envoy, and its bootstrap names no Instance (--instance)")
        }
        (None, _) => Ok(None),
        (Some(named), Membership::Local) if instance_name(named).is_some() => Ok(Some(named)),
        (Some(_), Membership::Local) => foreign("the Instance of its bootstrap is no DNS label"),
        (Some(named), Membership::Instances(instances)) if instances.contains(named) => Ok(Some(named)),
        (Some(_), _) => foreign(&format!("its certificate does not name its Instance, as NAME.{INSTANCE_DOMAIN}")),
    }
}

/// Reads the name of an instance: a DNS label.
pub(crate) fn instance_name(text: &str) -> Option<&str> {
    let inner = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit() || c == b'-';
    let is_label = (1..=63).contains(&text.len()) && text.bytes().all(inner);
    Some(text).filter(|text| is_label && !text.starts_with('-') && !text.ends_with('-'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn node_belongs_to_the_instance_that_its_certificate_names() {
        let of = |names: &[&str]| Membership::Instances(names.iter().map(|name| (*name).to_owned()).collect());
        let gateway = || Membership::Bound(["infra/edge".to_owned()].into());
        for (instance, membership, expected) in [
            (None, Membership::Free, Ok(None)),
            (None, Membership::Local, Ok(None)),
            (None, gateway(), Ok(None)),
            (None, of(&["a"]), Err("names no Instance")),
            (None, of(&[]), Err("names no Instance")),
            (Some("a"), of(&["a"]), Ok(Some("a"))),
            (Some("b"), of(&["a", "b"]), Ok(Some("b"))),
            (Some("a"), Membership::Local, Ok(Some("a"))),
            (Some("a"), Membership::Free, Err("does not name its Instance")),
            (Some("a"), gateway(), Err("does not name its Instance")),
            (Some("b"), of(&["a"]), Err("does not name its Instance")),
            (Some("a"), of(&[]), Err("does not name its Instance")),
            (Some("a/wasm"), Membership::Local, Err("no DNS label")),
            (Some(""), Membership::Local, Err("no DNS label")),
        ] {
            let metadata = instance.map(|instance| (NODE_INSTANCE.to_owned(), instance.to_owned()));
            let node = NodeInfo { membership, metadata: metadata.into_iter().collect(), ..NodeInfo::default() };
            match (claimed_instance(&node), expected) {
                (Ok(found), Ok(expected)) => assert_eq!(found, expected, "{node:?}"),
                (Err(Unserved::Foreign(why)), Err(part)) => assert!(why.contains(part), "{node:?}: {why}"),
                (found, _) => panic!("{node:?}: {found:?}"),
            }
        }
    }
}
