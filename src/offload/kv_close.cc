// Closing a lease: the new records go home behind it.
#include <utility>

#include "offload/kv_store_impl.h"

namespace barge {

void KvStore::close(Lease lease, Event computed) {
  Impl& impl = *impl_;
  const Lease::State& state = *lease.state_;
  // Home: on a unified device and for pages at home on the device the kernel wrote them there.
  Event home = computed;
  if (!state.appends.empty()) {
    Stream& store = impl.device.store();
    store.wait(computed);
    for (std::size_t i = 0; i < state.appends.size();) {
      auto run = state.appends[i++];
      for (; i < state.appends.size() && state.appends[i].to == run.to + run.bytes &&
             state.appends[i].from == run.from + run.bytes;
           ++i)
        run.bytes += state.appends[i].bytes;
      impl.copy(store, run.to, Tier::kHost, run.from, Tier::kDevice, run.bytes);
    }
    home = store.record();
    also_after(impl.others, home);
  }
  std::vector<std::byte*> from;
  for (KvPageId id : state.sealed) from.push_back(impl.host_ring().at(impl.pages[id].staged));
  Events until = state.reads;
  also_after(until, computed);
  also_after(until, home);
  if (state.device_region) impl.device_ring.release(*state.device_region, until);
  also_after(until, impl.write_pages(state.sealed, from, home));
  if (state.host_region) impl.host_ring().release(*state.host_region, until);

  Events last;
  also_after(last, lease.ready);
  also_after(last, home);
  drop_done(last);
  also_after(last, home);  // even if done: its failure is for whoever comes next
  for (SequenceId id : state.sequences) {
    KvLayer& layer = impl.sequences.at(id).layers[static_cast<std::size_t>(state.layer)];
    layer.after = last;
    layer.leased = false;
  }
  impl.check_writes();
}

}  // namespace barge
