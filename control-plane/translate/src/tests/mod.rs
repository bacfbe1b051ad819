mod diagnoses;
mod fixture;
mod golden;
mod hostile;
mod invariants;
mod render;
