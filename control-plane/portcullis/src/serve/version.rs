use portcullis_api::status::Served;
use portcullis_translate::Diagnosis;
use serde_json::Value;

/// Records in a diagnosis the version of the document that it is about. An object that is not accepted keeps its served version.
pub(super) fn stamp(diagnosis: &mut Diagnosis, document: &Value) {
    let version = &mut diagnosis.version;
    // Not by a pointer, which is taken apart for each of thousands of documents.
    let metadata = document.get("metadata");
    version.uid = metadata.and_then(|metadata| metadata.get("uid")?.as_str()).map(str::to_owned);
    version.generation = metadata.and_then(|metadata| metadata.get("generation")?.as_i64());
    if diagnosis.accepted {
        version.served = Served::Newest;
    }
}

/// The same diagnosis with the version of a document.
pub(super) fn stamped(diagnosis: &Diagnosis, document: &Value) -> Diagnosis {
    let mut diagnosis = diagnosis.clone();
    stamp(&mut diagnosis, document);
    diagnosis
}
