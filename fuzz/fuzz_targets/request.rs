//! Method, path and query: never a panic, and what is read does not depend on how it is written.
#![no_main]

use libfuzzer_sys::fuzz_target;
use portcullis_core::request_info::{RequestInfo, check_query, check_shape, unescape_path};

fn encode_all(decoded: &[u8]) -> Vec<u8> {
    let encoded: Vec<String> =
        decoded.iter().map(|byte| if *byte == b'/' { "/".to_owned() } else { format!("%{byte:02X}") }).collect();
    encoded.concat().into_bytes()
}

fuzz_target!(|data: &[u8]| {
    let mut parts = data.splitn(2, |byte| *byte == b' ');
    let (method, target) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    let at = target.iter().position(|byte| *byte == b'?').unwrap_or(target.len());
    let (raw, query) = (&target[..at], target.get(at + 1..).unwrap_or_default());
    let Ok(path) = unescape_path(raw) else { return };
    let Ok(info) = RequestInfo::resolve(method, &path, query) else { return };

    // Written otherwise, it is the same request.
    let rewritten = encode_all(&path);
    let path_again = unescape_path(&rewritten).expect("every byte is encoded");
    assert_eq!(path, path_again);
    assert_eq!(info, RequestInfo::resolve(method, &path_again, query).expect("as before"));
    // A parameter that is not read changes nothing.
    if check_query(query).is_ok() && query.iter().filter(|byte| **byte == b'&').count() < 9_999 {
        let longer = [query, b"&zz=%31"].concat();
        assert_eq!(info, RequestInfo::resolve(method, &path, &longer).expect("as before"));
    }

    if !info.is_resource {
        assert!(info.resource.is_empty() && info.name.is_empty() && info.namespace.is_empty());
        assert_eq!(*info.verb, *method.to_ascii_lowercase());
        return;
    }
    assert!(matches!(info.api_prefix, b"api" | b"apis"));
    assert!(info.api_prefix == b"apis" || info.api_group.is_empty());
    let known: [&[u8]; 11] =
        [b"", b"create", b"get", b"list", b"watch", b"update", b"patch", b"delete", b"deletecollection", b"proxy", b""];
    assert!(known.contains(&&*info.verb));
    assert!(*info.verb != *b"proxy" || info.subresource.is_empty());
    assert!(info.is_long_running() || !matches!(&*info.verb, b"watch" | b"proxy"));
    for part in [info.api_group, info.api_version, info.namespace, info.resource, info.subresource] {
        assert!(!part.contains(&b'/'));
    }
    let selectors = info.selectors(query);
    assert!(selectors == Default::default() || matches!(&*info.verb, b"list" | b"watch" | b"deletecollection"));

    // A path that is let through has one reading: the segments between plain slashes, each decoded for itself.
    if info.proxied_from.is_none() && check_shape(&info, raw).is_ok() {
        let trimmed: Vec<&[u8]> = raw.split(|byte| *byte == b'/').filter(|segment| !segment.is_empty()).collect();
        let apart: Vec<Vec<u8>> = trimmed.iter().map(|part| unescape_path(part).unwrap().into_owned()).collect();
        let together: Vec<&[u8]> = path.split(|byte| *byte == b'/').filter(|segment| !segment.is_empty()).collect();
        assert_eq!(apart, together);
        assert!(together.iter().all(|segment| !matches!(*segment, b"." | b"..")));
    }
});
