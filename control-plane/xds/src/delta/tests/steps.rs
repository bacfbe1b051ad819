use std::collections::BTreeMap;

use envoy_types::pb::google::rpc::Status;

use super::*;

/// A response as `type: +name -name`.
pub(super) fn show(responses: &[DeltaDiscoveryResponse]) -> Vec<String> {
    let short = BTreeMap::from([(CDS, "CDS"), (EDS, "EDS"), (LDS, "LDS"), (RDS, "RDS"), (SDS, "SDS")]);
    let one = |response: &DeltaDiscoveryResponse| {
        let mut text = format!("{}:", short[response.type_url.as_str()]);
        response.resources.iter().for_each(|resource| text += &format!(" +{}", resource.name));
        response.removed_resources.iter().for_each(|name| text += &format!(" -{name}"));
        text
    };
    responses.iter().map(one).collect()
}

pub(super) fn ask(url: &str, names: &[&str]) -> DeltaDiscoveryRequest {
    DeltaDiscoveryRequest {
        type_url: url.to_owned(),
        resource_names_subscribe: names.iter().map(|name| (*name).to_owned()).collect(),
        ..Default::default()
    }
}

pub(super) fn ack(response: &DeltaDiscoveryResponse) -> DeltaDiscoveryRequest {
    DeltaDiscoveryRequest { response_nonce: response.nonce.clone(), ..ask(&response.type_url, &[]) }
}

pub(super) fn nack(response: &DeltaDiscoveryResponse) -> DeltaDiscoveryRequest {
    let error = Status { message: "bad thing".to_owned(), ..Default::default() };
    DeltaDiscoveryRequest { error_detail: Some(error), ..ack(response) }
}

/// Acknowledges everything until nothing is said any more; returns what was said.
pub(super) fn settle(stream: &mut Encoded, mut responses: Vec<DeltaDiscoveryResponse>) -> Vec<String> {
    let mut said = Vec::new();
    while !responses.is_empty() {
        said.extend(show(&responses));
        responses = responses.iter().flat_map(|response| stream.on_request(ack(response))).collect();
    }
    said
}

pub(super) fn opened(snapshot: Arc<Snapshot>, asked: &[(&str, &[&str])]) -> Encoded {
    let mut stream = Encoded::new(snapshot);
    for (url, names) in asked {
        let responses = stream.on_request(ask(url, names));
        settle(&mut stream, responses);
    }
    stream
}

/// `(type, name, content, owner)`.
pub(super) fn owned(all: &[(&str, &str, &str, &str)]) -> Arc<Snapshot> {
    let one = |(url, name, body, owner): &(&str, &str, &str, &str)| {
        let resource = Resource::new(body.as_bytes().to_vec()).owned_by(*owner);
        ((*url).to_owned(), (*name).to_owned(), resource)
    };
    Arc::new(Snapshot::new(all.iter().map(one)))
}
