import type { Component } from 'svelte';
import AddMachinePage from './add_machine/AddMachinePage.svelte';
import ChatPage from './chat/ChatPage.svelte';
import ClusterPage from './cluster/ClusterPage.svelte';
import ConversationList from './chat/ConversationList.svelte';
import HistoryPage from './history/HistoryPage.svelte';
import type { IconName } from './lib/Icon.svelte';
import RequestsPage from './requests/RequestsPage.svelte';
import WhatIfPage from './what_if/WhatIfPage.svelte';

// The pages behind '#/ID'. One that is added here is in the side bar, too.
export interface Page {
  id: string;
  title: string;
  icon: IconName;
  component: Component;
  aside?: Component; // its own part of the side bar
}

export const pages: [Page, ...Page[]] = [
  { id: 'chat', title: 'Chat', icon: 'chat', component: ChatPage, aside: ConversationList },
  { id: 'cluster', title: 'Cluster', icon: 'cluster', component: ClusterPage },
  { id: 'requests', title: 'Requests', icon: 'requests', component: RequestsPage },
  { id: 'history', title: 'History', icon: 'history', component: HistoryPage },
  { id: 'what-if', title: 'What if', icon: 'bulb', component: WhatIfPage },
  { id: 'add-machine', title: 'Add a machine', icon: 'plus', component: AddMachinePage },
];
