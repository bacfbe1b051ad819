use std::borrow::Borrow;

use portcullis_api::status::Served;
use portcullis_translate::Diagnosis;
use serde_json::Value;

/// Records in each diagnosis the version of the document that it is about, in the same order. An object that is not accepted
/// keeps its served version.
pub(super) fn stamp<D: Borrow<Value>>(diagnoses: &mut [Diagnosis], documents: &[D]) {
    for (diagnosis, document) in diagnoses.iter_mut().zip(documents) {
        let (version, document) = (&mut diagnosis.version, document.borrow());
        // Not by a pointer, which is taken apart for each of thousands of documents.
        let metadata = document.get("metadata");
        version.uid = metadata.and_then(|metadata| metadata.get("uid")?.as_str()).map(str::to_owned);
        version.generation = metadata.and_then(|metadata| metadata.get("generation")?.as_i64());
        if diagnosis.accepted {
            version.served = Served::Newest;
        }
    }
}
